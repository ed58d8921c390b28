"""The ranges of offsets that Spark's Kafka source has planned for an epoch, and their row counts.

Spark plans a micro-batch before it calls the sink: the RDD behind the DataFrame has a partition for
each range. This module reads the ranges from there, so Spark still decides on `minPartitions`, new
partitions and lost data. The RDD itself never runs.

Source: Spark `ForeachBatchSink`, `DataSourceRDDPartition`, `kafka010/KafkaBatchPartitionReader`.
"""

from __future__ import annotations

import logging
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from stream_app.kafka.offset_ranges import OffsetRange

_LOG = logging.getLogger(__name__)


def planned_ranges(messages: DataFrame) -> list[OffsetRange]:
    """The range of each task; none is empty.

    Args:
        messages: the DataFrame of a micro-batch of Spark's Kafka source, as `foreachBatch` gets it.
    """
    found = []
    for partition in messages._jdf.queryExecution().analyzed().rdd().partitions():
        inputs = partition.inputPartitions()
        for index in range(inputs.length()):
            planned = inputs.apply(index).offsetRange()
            begin, end = planned.fromOffset(), planned.untilOffset()
            if begin < end:
                found.append(OffsetRange(planned.topic(), planned.partition(), begin, end))
    return found


def count_input_rows(spark: SparkSession, query_id: str, rows: int) -> None:
    """Report to Spark how many messages an epoch had, for its progress and its metrics.

    Spark counts the rows that its plan yields, and this plan does not run.
    """
    try:
        query: Any = spark.streams.get(query_id)
        leaves = query._jsq.streamingQuery().lastExecution().executedPlan().collectLeaves()
        for index in range(leaves.length()):
            metric = leaves.apply(index).metrics().get("numOutputRows")
            if metric.isDefined():
                metric.get().add(rows)
                return
    except (Py4JError, AttributeError, TypeError) as error:
        # The epoch's files are written: a count must not cost the epoch.
        _LOG.debug("Spark's count of input rows stays 0: %s", error)
