"""An epoch of nothing, run while the stream looks up its first offsets.

The first tasks of a session start the process of the Python workers, load Spark's classes and
compile the plan's code: seconds, in which the source has nothing to do either. What such an epoch
is, its runner knows.
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
def warming_up(spark: SparkSession, epoch_of_nothing: Callable[[], None]) -> Iterator[None]:
    """Warm up beside the block; what still runs of it when the block has ended is cancelled."""
    thread = Thread(target=_warm_up, args=(spark, epoch_of_nothing), name="warm-up", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if thread.is_alive():
            spark.sparkContext.cancelJobGroup(_GROUP)
            thread.join(_JOIN_SECONDS)


def _warm_up(spark: SparkSession, epoch_of_nothing: Callable[[], None]) -> None:
    try:
        spark.sparkContext.setJobGroup(_GROUP, "an epoch of nothing, to warm up")
        epoch_of_nothing()
    except Exception as error:
        # What is wrong is wrong with the first epoch, too, which tells it better.
        _LOG.debug("the warm-up failed: %s", error)
