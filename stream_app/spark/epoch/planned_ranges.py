"""The ranges of offsets that Spark's Kafka source has planned for an epoch, and what came of them.

Spark plans a micro-batch before it calls the sink: the RDD behind the DataFrame has a partition for
each range. The ranges are read from there, so `minPartitions`, new partitions and lost data are
Spark's own decisions. The RDD itself never runs.

Source: Spark `ForeachBatchSink`, `DataSourceRDDPartition`, `kafka010/KafkaBatchPartitionReader`.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from stream_app.kafka.offset_ranges import OffsetRange


def planned_ranges(messages: DataFrame) -> list[OffsetRange]:
    """What each task would read; none is empty.

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
    """Tell Spark how many messages an epoch had, for its progress and its metrics.

    Spark counts rows where its plan yields them, and here the plan does not run.
    """
    query: Any = spark.streams.get(query_id)
    leaves = query._jsq.streamingQuery().lastExecution().executedPlan().collectLeaves()
    for index in range(leaves.length()):
        metric = leaves.apply(index).metrics().get("numOutputRows")
        if metric.isDefined():
            metric.get().add(rows)
            return
