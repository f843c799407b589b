"""Virtual time for the shipped host: an event loop that never waits, and a machine that has nothing real.

The world runs its loop from callbacks of the caller's loop until nothing is ready, then moves its clock to the next
deadline. What users wrote as steps runs on the caller's loop, which the world waits for.
"""

from tenuto.testing.world.loop import WorldLoop
from tenuto.testing.world.machine import machine
from tenuto.testing.world.world import FOREVER, Stuck, World

__all__ = ["FOREVER", "Stuck", "World", "WorldLoop", "machine"]
