"""The parts of a system, together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tenuto.system.clock import Clock
from tenuto.system.control import Control
from tenuto.system.entropy import Entropy
from tenuto.system.lane import Lane
from tenuto.system.pace import Pace
from tenuto.system.runner import Runner

__all__ = ["System"]


@dataclass(frozen=True, slots=True)
class System:
    """Everything a host takes from the machine it runs on. The last three are made once per use."""

    clock: Clock
    entropy: Entropy
    pace: Pace
    lane: Callable[[str], Lane]
    control: Callable[[], Control]
    runner: Callable[[], Runner]
