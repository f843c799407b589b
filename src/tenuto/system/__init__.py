"""What the engine takes from the machine: clocks, entropy, threads, pace.

The host and the stores get them as a `System` and reach for nothing else of this kind (a lint rule holds it), so tests
and simulation run the shipped host on other ones.
"""

from tenuto.system.clock import Clock
from tenuto.system.control import Control
from tenuto.system.entropy import Entropy
from tenuto.system.lane import Lane, Lock, done_on
from tenuto.system.pace import Pace
from tenuto.system.real import REAL
from tenuto.system.runner import LOOP_THREADS, Runner, own_threads
from tenuto.system.system import System

__all__ = [
    "LOOP_THREADS",
    "REAL",
    "Clock",
    "Control",
    "Entropy",
    "Lane",
    "Lock",
    "Pace",
    "Runner",
    "System",
    "done_on",
    "own_threads",
]
