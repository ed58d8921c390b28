"""An epoch of nothing, run while the stream looks up its first offsets.

The first tasks of a session start the process of the Python workers, load Spark's classes and
compile the plan's code: seconds, in which the source has nothing to do either. What this epoch
reads are tombstones, so it writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from pyspark.sql import SparkSession

from stream_app.spark.ingest.epoch_job import route_blocks, write_blocks
from stream_app.spark.ingest.epoch_plan import EpochPlan

_LOG = logging.getLogger(__name__)
_GROUP = "stream_app warm-up"
_JOIN_SECONDS = 10
_TOMBSTONE = (
    "'' AS topic",
    "0 AS partition",
    "id AS offset",
    "timestamp_millis(0) AS timestamp",
    "CAST(NULL AS BINARY) AS key",
    "CAST(NULL AS BINARY) AS value",
)


@contextmanager
def warming_up(spark: SparkSession, plan: EpochPlan) -> Iterator[None]:
    """Warm up beside the block; what still runs of it when the block has ended is cancelled."""
    thread = Thread(target=_warm_up, args=(spark, plan), name="warm-up", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if thread.is_alive():
            spark.sparkContext.cancelJobGroup(_GROUP)
            thread.join(_JOIN_SECONDS)


def _warm_up(spark: SparkSession, plan: EpochPlan) -> None:
    try:
        spark.sparkContext.setJobGroup(_GROUP, "an epoch of nothing, to warm up")
        tasks = plan.shape.tasks
        messages = spark.range(0, tasks, 1, tasks).selectExpr(*_TOMBSTONE)
        write_blocks(route_blocks(messages, plan), plan).collect()
    except Exception as error:
        # What is wrong is wrong with the first epoch, too, which tells it better.
        _LOG.debug("the warm-up failed: %s", error)
