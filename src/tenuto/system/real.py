"""The machine as it is."""

from __future__ import annotations

from typing import Final

from tenuto.system.clock import RealClock
from tenuto.system.control import ThreadControl
from tenuto.system.entropy import RealEntropy
from tenuto.system.lane import ThreadLane
from tenuto.system.pace import Pace
from tenuto.system.runner import own_threads
from tenuto.system.system import System

__all__ = ["REAL"]

REAL: Final = System(RealClock(), RealEntropy(), Pace(), ThreadLane, ThreadControl, own_threads)
