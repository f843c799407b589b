"""`tenuto worker`: its options are those of the app, and it refuses to serve nothing."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tenuto import Limits, Tenuto
from tenuto.cli import worker
from tenuto.cli.worker import command

APP = """
from tenuto import workflow

@workflow(name="{name}")
async def nothing() -> None: ...
"""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What a worker would have been made with."""
    made: list[dict[str, Any]] = []

    async def serve(place: Any, **options: Any) -> None:
        made.append(options)

    monkeypatch.setattr(worker, "serve", serve)
    return made


def test_every_option_of_the_app_is_one_of_the_worker() -> None:
    known = {name for parameter in command.params for name in [parameter.name]}
    said = {"url": "url", "codec": "codec", "limits": "limits", "namespaces": "namespaces"}
    wanted = {said.get(name, name) for name in inspect.signature(Tenuto).parameters}
    assert wanted - {"worker", "registry"} <= known  # it is one; no object on a command line


def test_the_options_reach_the_app_as_they_were_given(
    tenuto: Callable[..., Result], served: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "worker_options.py"
    file.write_text(APP.format(name="worker_options"))
    given = ["--retention", "90d", "--block-limit", "10m", "--max-reclaims", "7", "--cache-bytes", "1024"]
    given += ["--limit", "page=10", "--limit", "value_bytes=4096", "--namespace", "other=sqlite:///o.db"]
    done = tenuto("worker", "--app", str(file), *given)
    assert done.exit_code == 0, done.output
    (options,) = served
    assert options["retention"] == "90d"
    assert (options["block_limit"], options["max_reclaims"], options["cache_bytes"]) == ("10m", 7, 1024)
    assert options["limits"] == Limits(page=10, value_bytes=4096)
    assert options["namespaces"] == {"other": "sqlite:///o.db"}
    Tenuto("memory://", **options)


def test_code_that_leaves_while_it_is_loaded_is_named(tenuto: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "leaving.py"
    file.write_text("raise SystemExit(7)")
    done = tenuto("worker", "--app", str(file))
    assert done.exit_code == 7
    assert "leaving.py left with 7 while it was being loaded" in done.output


def test_what_is_not_said_is_as_the_app_has_it(
    tenuto: Callable[..., Result], served: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "worker_defaults.py"
    file.write_text(APP.format(name="worker_defaults"))
    assert tenuto("worker", "--app", str(file), "--retention", "none").exit_code == 0
    (options,) = served
    defaults = {name: option.default for name, option in inspect.signature(Tenuto).parameters.items()}
    assert options.pop("retention") is None
    assert not options.pop("namespaces")
    assert options == {name: defaults[name] for name in options}


@pytest.mark.parametrize(
    "wrong",
    [
        ["--retention", "soon"],
        ["--limit", "page"],
        ["--limit", "page=0"],
        ["--limit", "nope=3"],
        ["--max-reclaims", "0"],
        ["--namespace", "x"],
    ],
)
def test_a_wrong_option_is_a_wrong_command_line(wrong: list[str], tenuto: Callable[..., Result]) -> None:
    assert tenuto("worker", "--app", "shop", *wrong).exit_code == 2


def test_the_children_are_told_the_same_and_the_url_by_their_environment(
    tenuto: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    class Processes:
        def __init__(self, arguments: list[str], environment: dict[str, str], count: int) -> None:
            started.append((arguments, environment))

        async def run(self) -> int:
            return 0

    monkeypatch.setattr(worker, "Processes", Processes)
    url = "postgresql://u:s3cret@h/db"
    namespace = "other=postgresql://u:s3cret@o/db"
    given = ["--url", url, "--retention", "none", "--limit", "page=10", "--namespace", namespace, "--queues", "a,b"]
    assert tenuto("worker", "--app", "shop", "--processes", "2", *given).exit_code == 0
    ((arguments, environment),) = started
    assert "s3cret" not in " ".join(arguments)
    assert environment["TENUTO_URL"] == url
    assert environment["TENUTO_NAMESPACES"] == namespace
    assert environment["PATH"] == os.environ["PATH"]
    with command.make_context("worker", arguments[1:]) as context:
        again = context.params
    assert again["retention"] is None
    assert again["limits"] == Limits(page=10)
    assert (again["queues"], again["apps"], again["processes"]) == ("a,b", ("shop",), 1)


def test_a_worker_with_nothing_to_work_on_refuses_to_start(
    tenuto: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tenuto.model.registry import default

    monkeypatch.setattr(default, "definitions", lambda kind: [])
    done = tenuto("worker", "--app", "os", "--url", "memory://")
    assert done.exit_code == 2
    assert "TN221 nothing to work on: os defines no workflow and no step" in done.output


def test_a_folder_without_a_store_is_said_to_be_one(
    tenuto: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["runs"], ["show", "x"], ["signal", "x", "go"], ["check", "--app", "os"]):
        done = tenuto(*words)
        assert done.exit_code == 2, done.output
        said = (
            f"TN221 no store here: there is no .tenuto/tenuto.db in {tmp_path}; name one with --url, or change folder"
        )
        assert said in done.output.replace("\n", "")
    assert not (tmp_path / ".tenuto").exists()


def test_a_damaged_url_is_one_message_without_its_password(tenuto: Callable[..., Result]) -> None:
    for url in ("postgresql://u:s3cret@[::1/db", "postgresql://u:s3cret@h/db?connect_timeout=s3cret", "u:s3cret@h"):
        done = tenuto("runs", "--url", url)
        assert done.exit_code == 2, done.output
        assert "s3cret" not in done.output
        assert "Traceback" not in done.output


def test_a_file_of_nested_json_is_no_exported_run(tenuto: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    for text in ("[" * 100_000, "[" + "9" * 5000 + "]"):
        file.write_text(text)
        done = tenuto("import", str(file), "--url", f"sqlite:///{tmp_path}/x.db")
        assert done.exit_code == 4, done.output
        assert "TN306" in done.output
