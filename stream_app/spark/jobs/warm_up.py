"""Runs an epoch without messages while the stream asks for its first offsets.

A session's first tasks start the Python workers, load Spark's classes and compile the plan's code.
That takes seconds, in which the stream waits for its first offsets anyway. The runner defines the
empty epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)
_GROUP = "stream_app warm-up"
_JOIN_SECONDS = 10


@contextmanager
def warming_up(spark: SparkSession, run_empty_epoch: Callable[[], None]) -> Iterator[None]:
    """Warm up while the block runs, and cancel the rest of the warm-up when the block ends."""
    thread = Thread(target=_warm_up, args=(spark, run_empty_epoch), name="warm-up", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if thread.is_alive():
            spark.sparkContext.cancelJobGroup(_GROUP)
            thread.join(_JOIN_SECONDS)


def _warm_up(spark: SparkSession, run_empty_epoch: Callable[[], None]) -> None:
    try:
        spark.sparkContext.setJobGroup(_GROUP, "an epoch of nothing, to warm up")
        run_empty_epoch()
    except Exception as error:
        # The first epoch meets the same error and reports it with more context.
        _LOG.debug("the warm-up failed: %s", error)
