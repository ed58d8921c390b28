"""Reads messages from a folder of ``*.jsonl`` files, for trials and replays of captured messages.

Each line is one message: ``{"topic": …, "partition": …, "offset": …, "key": …, "value": …}`` with
key and value as texts or null. ``timestamp`` (milliseconds since 1970) and ``headers`` may follow;
the job ignores the headers. Any other line stops the job, because its meaning is unknown. Blank
lines are skipped.

The job reads a file as soon as its name appears, in the order of modification times. So write a
file elsewhere and move it into the folder. Within an epoch the offsets decide the order, across all
files.

Source: Spark's file stream; Kafka's own record for the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.columns.json_lines import looks_like_object, parse_objects
from stream_app.errors import UsageError, WrongSourceError

_LINE_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.string()),
        ("value", pa.string()),
    ]
)
_REQUIRED_COLUMN_COUNT = 3
"""The number of columns, from the first, that must not be null."""
_MESSAGE_COLUMNS = (
    "topic STRING, partition INT, offset LONG, timestamp LONG, key BINARY, value BINARY"
)
_SHOWN_SIZE_MAX = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLinesSource:
    """The folder to read. The section `[source]` of the configuration explains the attributes."""

    path: str
    max_files_per_trigger: int | None = None

    def read_stream(self, spark: SparkSession) -> DataFrame:
        """Return a stream of `MESSAGE_SCHEMA`.

        Raises:
            UsageError: the folder does not exist.
        """
        if not Path(self.path).is_dir():
            raise UsageError(
                f"there is no folder {self.path!r}",
                where="source.path",
                fix="give a folder of *.jsonl files",
            )
        reader = (
            spark.readStream.format("text")
            .option("pathGlobFilter", "*.jsonl")
            .option("lineSep", "\n")
            # By default Spark silently skips files a week older than the newest one.
            .option("maxFileAge", "36500d")
        )
        if self.max_files_per_trigger is not None:
            reader = reader.option("maxFilesPerTrigger", str(self.max_files_per_trigger))
        lines = reader.load(self.path).select(
            F.col("value").cast("binary").alias("line"), F.col("_metadata.file_path").alias("file")
        )
        messages = lines.mapInArrow(parse_batches, _MESSAGE_COLUMNS)
        timestamp = F.timestamp_millis("timestamp").alias("timestamp")
        columns = [timestamp if name == "timestamp" else name for name in MESSAGE_SCHEMA.names]
        return messages.select(*columns)


def parse_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse columns `line` (bytes) and `file` into messages, with timestamps in milliseconds.

    Raises:
        WrongSourceError: a line is not a message; names the file and shows the line.
    """
    for batch in batches:
        lines = _trim(batch.column("line"))
        is_present = pc.not_equal(pc.binary_length(lines), 0)
        lines, files = lines.filter(is_present), batch.column("file").filter(is_present)
        if not len(lines):
            continue
        columns = _parse(lines)
        if columns is None:
            raise _bad_line_error(lines, files)
        key, value = (column.cast(pa.binary()) for column in columns[-2:])
        yield pa.RecordBatch.from_arrays([*columns[:-2], key, value], names=_LINE_SCHEMA.names)


def _trim(lines: pa.Array) -> pa.Array:
    # The test reads only ASCII, so the bytes need not be text.
    text = pa.Array.from_buffers(pa.string(), len(lines), lines.buffers(), offset=lines.offset)
    return pc.ascii_trim_whitespace(text).cast(pa.binary())


def _parse(lines: pa.Array) -> list[pa.Array] | None:
    """Parse lines into columns of `_LINE_SCHEMA`; None if any line is not a message."""
    if not looks_like_object(lines).all():
        return None
    columns = parse_objects(lines, _LINE_SCHEMA)
    if columns is None or any(column.null_count for column in columns[:_REQUIRED_COLUMN_COUNT]):
        return None
    return columns


def _bad_line_error(lines: pa.Array, files: pa.Array) -> WrongSourceError:
    index = next(index for index in range(len(lines)) if _parse(lines.slice(index, 1)) is None)
    line = lines[index].as_py()
    try:
        json.loads(line)
        problem = "it lacks a field, or a field has a wrong type"
    except ValueError as error:
        problem = f"it is not JSON ({error})"
    return WrongSourceError(
        f"a line is not a message, {problem}: {line[:_SHOWN_SIZE_MAX].decode(errors='replace')}",
        where=unquote(files[index].as_py()).removeprefix("file:").removeprefix("//"),
        fix='a line must be {"topic": text, "partition": number, "offset": number, "key": text or '
        'null, "value": text or null}; correct the file and start the job again. Files must appear '
        "whole: write them elsewhere and move them in",
    )
