"""Joins streams of batches, read by threads, into one stream without a fixed order.

A thread fetches one batch of a stream, and waits until the reader requests the next. So the number
of threads bounds the memory even if the reader is slow. No thread runs on after the reader stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import pyarrow as pa

_T = TypeVar("_T")

BatchStream = Callable[[], Iterator[pa.RecordBatch]]
"""Opens a stream; called when its turn comes."""


def interleaved(streams: Iterable[Callable[[], Iterator[_T]]], threads: int) -> Iterator[_T]:
    """Yield the batches of all streams, of which `threads` are open at a time.

    Raises:
        Exception: the first error of a stream, after the other threads' fetches have ended.
    """
    if threads == 1:
        for stream in streams:
            yield from stream()
        return
    unopened_streams = iter(streams)
    fetches: dict[Future[_T | None], Iterator[_T]] = {}
    with ThreadPoolExecutor(threads, thread_name_prefix="read") as pool:

        def fetch(batches: Iterator[_T]) -> None:
            fetches[pool.submit(next, batches, None)] = batches

        try:
            for _, stream in zip(range(threads), unopened_streams, strict=False):
                fetch(stream())
            while fetches:
                completed_fetches, _ = wait(fetches, return_when=FIRST_COMPLETED)
                for future in completed_fetches:
                    batches = fetches.pop(future)
                    batch = future.result()
                    if batch is not None:
                        fetch(batches)
                        yield batch
                    elif (next_stream := next(unopened_streams, None)) is not None:
                        fetch(next_stream())
        finally:
            wait(fetches)
