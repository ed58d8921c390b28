"""Finds the functions that use most of the processor time of some work."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable


def print_profile(work: Callable[[], object], functions: int = 25) -> None:
    """Run some work once, and print the functions with the most time, without their callees' time.

    The seconds are the processor's, because the clock's would include waits on a busy machine.
    """
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(work)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(functions)
