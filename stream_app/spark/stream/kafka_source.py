"""Reads messages of Kafka topics by Spark's own source.

Source: Spark's `spark-sql-kafka-0-10`. docs/performance gives the savings of the
defaults below.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.errors import UsageError
from stream_app.model.job_epoch import Offsets

CLIENT_DEFAULTS: Mapping[str, str] = {
    # In each small epoch the consumer looks up offsets after a fetch that waits at the broker, for
    # 500 ms by default.
    "fetch.max.wait.ms": "10",
    # Aborted transactions are not changes.
    "isolation.level": "read_committed",
    # Spark polls in sequence; Kafka's default of 500 records a poll is too few.
    "max.poll.records": "50000",
    # A larger fetch leaves the processor's cache before decoding; a smaller one costs requests.
    "max.partition.fetch.bytes": str(4 << 20),
    "fetch.max.bytes": str(64 << 20),
    # The operating system's choice, which grows with the stream; Kafka's default is 64 KiB.
    "receive.buffer.bytes": "-1",
}

_EARLIEST = -2
_NO_SOURCE = ("_LEGACY_ERROR_TEMP_1140", "KAFKA_DATA_SOURCE_NOT_ENABLED")
"""Spark's error conditions in a session without the jars: of 4.0 and 4.1, and of later versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """The topics to read; the attributes are explained at `[source]` of the configuration.

    Attributes:
        min_partitions: the minimum number of reading tasks; None means the number of cores, or one
            task per Kafka partition if the job tolerates lost data.
        kafka_options: options of Kafka's Java client, without the prefix ``kafka.``.
    """

    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    min_partitions: int | None = None
    fails_on_loss: bool = True
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read_stream(self, spark: SparkSession) -> DataFrame:
        """Return a stream of `MESSAGE_SCHEMA`.

        Raises:
            UsageError: Spark has not been given the jars of its Kafka source.
        """
        reader = spark.readStream.format("kafka")
        for key, value in self.options(spark.sparkContext.defaultParallelism).items():
            reader = reader.option(key, value)
        try:
            messages = reader.load()
        except AnalysisException as error:
            if error.getCondition() not in _NO_SOURCE:
                raise
            raise UsageError(
                "Spark has no Kafka source here: its jars are not among those of the session",
                where="source.reader",
                fix="set it to 'native', which needs no jars, or give spark-submit the jars that "
                "`python -m stream_app.app.launch.jars spark-kafka` prints",
            ) from None
        return messages.select(*MESSAGE_SCHEMA.names)

    def read_between(
        self, spark: SparkSession, start_offsets: Offsets, end_offsets: Offsets
    ) -> DataFrame:
        """Return the messages between two offsets of each partition, in `MESSAGE_SCHEMA`.

        A partition that `start_offsets` lacks is new, so it is read from its first message.
        """
        starting_offsets = {
            topic: {
                partition_number: start_offsets.get(topic, {}).get(partition_number, _EARLIEST)
                for partition_number in topic_offsets
            }
            for topic, topic_offsets in end_offsets.items()
        }
        partition_numbers = {
            topic: sorted(map(int, topic_offsets)) for topic, topic_offsets in end_offsets.items()
        }
        options = self.options(spark.sparkContext.defaultParallelism)
        for key in ("subscribe", "subscribePattern", "maxOffsetsPerTrigger"):
            options.pop(key, None)
        options |= {
            "assign": json.dumps(partition_numbers),
            "startingOffsets": json.dumps(starting_offsets),
            "endingOffsets": json.dumps(end_offsets),
        }
        frame = spark.read.format("kafka").options(**options).load()
        return frame.select(*MESSAGE_SCHEMA.names)

    def options(self, core_count: int) -> dict[str, str]:
        """Return options of Spark's source."""
        options = {f"kafka.{key}": value for key, value in CLIENT_DEFAULTS.items()}
        options |= {f"kafka.{key}": value for key, value in self.kafka_options.items()}
        options |= {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            "startingOffsets": self.starting_offsets,
            "failOnDataLoss": str(self.fails_on_loss).lower(),
        }
        if self.min_partitions is not None or self.fails_on_loss:
            options["minPartitions"] = str(self.min_partitions or core_count)
        # Otherwise one task reads each Kafka partition. After a loss Spark keeps using a consumer
        # that it has returned to its pool, which fails when another task reads that partition.
        if self.topic_pattern is None:
            options["subscribe"] = ",".join(self.topics)
        else:
            # Otherwise Spark takes topics in which the pattern matches a part of the name.
            options["subscribePattern"] = f"^(?:{self.topic_pattern})$"
        if self.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(self.max_offsets_per_trigger)
        return options
