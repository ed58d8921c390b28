"""Changes the rows of a source in a thread while a test examines its job."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def going_on(change: Callable[[int], object], pause_s: float) -> Iterator[None]:
    """Make changes until the block ends, and one at least; an error of one is raised then.

    Args:
        change: gets the number of the change, from 0 on.
    """
    stop_event = threading.Event()

    def change_on() -> None:
        for number in itertools.count():
            change(number)
            if stop_event.wait(pause_s):
                return

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(change_on)
        try:
            yield
        finally:
            stop_event.set()
        changing.result()
