"""Messages from a folder of ``*.jsonl`` files, for trials and for replaying what was captured.

Each line is one message: ``{"topic": …, "partition": …, "offset": …, "key": …, "value": …}`` with
key and value as texts or null; ``timestamp`` (milliseconds) and ``headers`` may follow. A file is
taken in when its name appears, so write it elsewhere and move it in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.errors import UsageError

_LINE = (
    "topic STRING, partition INT, offset BIGINT, timestamp BIGINT, key STRING, value STRING, "
    "broken STRING"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesSource:
    """Where to read; see `[source]` of the configuration for the meanings."""

    path: str
    max_files_per_trigger: int | None = None

    def read_stream(self, spark: SparkSession) -> DataFrame:
        """A stream of `MESSAGE_SCHEMA`; a line that is no message becomes one that is bad.

        Raises:
            UsageError: there is no such folder.
        """
        if not Path(self.path).is_dir():
            raise UsageError(
                f"there is no folder {self.path!r}",
                where="source.path",
                fix="give a folder of *.jsonl files",
            )
        reader = (
            spark.readStream.format("json")
            .schema(_LINE)
            .option("pathGlobFilter", "*.jsonl")
            .option("columnNameOfCorruptRecord", "broken")
        )
        if self.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", str(self.max_files_per_trigger))
        lines = reader.load(self.path)
        # What is no JSON object goes on as the message's value, where decoding calls it bad.
        return lines.select(
            F.coalesce("topic", F.lit("files")).alias("topic"),
            F.coalesce("partition", F.lit(0)).alias("partition"),
            F.coalesce("offset", F.lit(-1)).cast("long").alias("offset"),
            F.timestamp_millis("timestamp").alias("timestamp"),
            F.col("key").cast("binary").alias("key"),
            F.coalesce("value", "broken").cast("binary").alias("value"),
        ).select(*MESSAGE_SCHEMA.names)
