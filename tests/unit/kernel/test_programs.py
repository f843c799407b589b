"""K087: generated programs under generated events, crashed after every turn, changed midway, in other processes.

`TENUTO_FUZZ=1` runs many more of them.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.fuzz
HERE = Path(__file__).parent
FUZZ = os.environ.get("TENUTO_FUZZ") == "1"
EXAMPLES = 1_500 if FUZZ else 75


def _programs() -> Any:
    name = "kernel_programs"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / "programs.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


programs = _programs()
chances = st.randoms(use_true_random=False)
seeds = st.integers(0, 2**32)
bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not FUZZ,
    database=None,
    phases=(Phase.explicit, Phase.generate),  # programs shrink badly, and for minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@given(chance=chances, seed=seeds)
@bounded
def test_crashing_after_every_turn_changes_nothing(driver_class, chance, seed):
    """K087, K029, K076, P7"""
    program = programs.make_program(chance)
    runs = []
    for crash in (False, True):
        run = driver_class(programs.body_of(program), crash=crash)
        programs.World(run, seed).go()
        runs.append(programs.state_of(run))
        run.close()
    assert runs[0] == runs[1], program


@given(chance=chances, seed=seeds, turns=st.integers(1, 25))
@bounded
def test_a_step_inserted_midway_is_the_same_with_and_without_crashes(driver_class, chance, seed, turns):
    """K087, D1 to D10"""
    program = programs.make_program(chance)
    changed = programs.insert_step(chance, program)
    runs = []
    for crash in (False, True):
        run = driver_class(programs.body_of(program), crash=crash)
        world = programs.World(run, seed)
        for _ in range(turns):
            if run.outcome is not None or not world.once():
                break
        if run.outcome is None:
            run.again(programs.body_of(changed), hash="v2")
            world.go()
        runs.append(programs.state_of(run))
        run.close()
    assert runs[0] == runs[1], (program, changed)


IN_ANOTHER_PROCESS = """
import importlib.util, sys
ballast = [object() for _ in range(int(sys.argv[1]))]
def load(file, name):
    spec = importlib.util.spec_from_file_location(name, sys.argv[2] + "/" + file + ".py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
driving, programs = load("conftest", "kernel_driver"), load("programs", "kernel_programs")
for seed in range(int(sys.argv[3])):
    print(seed, programs.digest(driving.Driver, seed))
"""


def test_the_same_bytes_in_every_process(driver_class):
    """K087, K018, K035, section 7: set order, hash seed"""
    count = 400 if FUZZ else 30
    here = [f"{seed} {programs.digest(driver_class, seed)}" for seed in range(count)]
    for hash_seed, ballast in (("1", "0"), ("4711", "12345")):
        there = subprocess.run(
            [sys.executable, "-c", IN_ANOTHER_PROCESS, ballast, str(HERE), str(count)],
            env={"PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.splitlines()
        assert there == here


@pytest.mark.parametrize("seed", range(200 if FUZZ else 25))
def test_a_program_can_be_closed_at_any_turn_without_writing(driver_class, seed):
    """1.8"""
    chance = Random(seed)
    run = driver_class(programs.body_of(programs.make_program(chance)))
    world = programs.World(run, seed)
    for _ in range(chance.randint(1, 20)):
        if run.outcome is not None or not world.once():
            break
    before = dict(run.kv)
    run.close()
    assert run.kv == before
