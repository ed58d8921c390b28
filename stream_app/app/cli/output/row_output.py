"""Writes record batches as lines or files in the requested format, batch by batch.

A file appears completely or not at all, because it is written under another name and then renamed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from stream_app.app.text.text_table import Column, text_lines
from stream_app.app.text.value_text import base64_texts, json_lines, plain_texts
from stream_app.errors import UsageError

Batches = Iterable[pa.RecordBatch]
_LINES_AT_ONCE = 1000


@contextmanager
def output(path: Path | None) -> Iterator[BinaryIO]:
    """Open standard output, or a file that appears when it is complete.

    Raises:
        UsageError: the path is a folder, or its parent folder does not exist.
    """
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if path.is_dir() or not path.parent.is_dir():
        raise UsageError(
            f"{path} cannot be written: "
            + ("it is a folder" if path.is_dir() else f"{path.parent} is not a folder"),
            fix="give the name of a file in an existing folder",
        )
    if path.exists() and not path.is_file():  # a pipe or a device
        with path.open("wb") as sink:
            yield sink
        return
    unfinished_path = path.with_name(path.name + ".unfinished")
    try:
        with unfinished_path.open("wb") as sink:
            yield sink
        unfinished_path.replace(path)
    finally:
        unfinished_path.unlink(missing_ok=True)


def write_table(batches: Batches, schema: pa.Schema, sink: BinaryIO) -> None:
    """Write aligned columns for people."""
    columns = [Column(field.name, aligns_right=is_numeric(field.type)) for field in schema]
    rows = chain.from_iterable(_text_rows(batch) for batch in batches)
    for line in text_lines(columns, rows):
        sink.write(line.encode(errors="replace") + b"\n")


def write_jsonl(batches: Batches, schema: pa.Schema, sink: BinaryIO) -> None:
    """Write one JSON object per line."""
    for batch in batches:
        for start in range(0, batch.num_rows, _LINES_AT_ONCE):
            part = batch.slice(start, _LINES_AT_ONCE)
            lines = json_lines(schema.names, part.columns).to_pylist()
            sink.write("".join(line + "\n" for line in lines).encode())
        sink.flush()


def write_csv(batches: Batches, schema: pa.Schema, sink: BinaryIO) -> None:
    """Write comma-separated values with a header; bytes become base64, and null is empty."""
    texts = pa.schema([_csv_field(field) for field in schema])
    with pa_csv.CSVWriter(sink, texts) as writer:
        for batch in batches:
            columns = [_csv_column(column) for column in batch.columns]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=texts))


def write_parquet(batches: Batches, schema: pa.Schema, sink: BinaryIO) -> None:
    """Write a Parquet file with zstd."""
    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


WRITERS: dict[str, Callable[[Batches, pa.Schema, BinaryIO], None]] = {
    "table": write_table,
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
}


def is_numeric(data_type: pa.DataType) -> bool:
    """Return whether a column of this type is right-aligned."""
    return bool(
        pa.types.is_integer(data_type)
        or pa.types.is_floating(data_type)
        or pa.types.is_decimal(data_type)
    )


def _text_rows(batch: pa.RecordBatch) -> Iterator[tuple[str | None, ...]]:
    columns = [plain_texts(column).to_pylist() for column in batch.columns]
    return zip(*columns, strict=True)


def _csv_field(field: pa.Field) -> pa.Field:
    is_text = pa.types.is_binary(field.type) or pa.types.is_nested(field.type)
    return field.with_type(pa.string()) if is_text else field


def _csv_column(column: pa.Array) -> pa.Array:
    if pa.types.is_nested(column.type):
        return plain_texts(column)
    return base64_texts(column) if pa.types.is_binary(column.type) else column
