"""Finds the functions that use most of a work's processor time."""

from __future__ import annotations

import cProfile
import pstats
import time
from collections.abc import Callable


def print_profile(work: Callable[[], object], functions: int = 25) -> None:
    """Run a work once, and print the functions with the most time, without that of their callees.

    Seconds are of the processor: those of the clock would have waits on a busy machine in them.
    """
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(work)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(functions)
