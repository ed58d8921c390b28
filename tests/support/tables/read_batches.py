"""Reads the rows of a Parquet file without their positions in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa

from stream_app.format.data_files.parquet_reader import numbered_batches


def read_batches(
    source: BinaryIO | pa.NativeFile, columns: Sequence[str], batch_rows_max: int
) -> Iterator[pa.RecordBatch]:
    """Read batches as `numbered_batches` does, without the numbers."""
    return (batch for _, batch in numbered_batches(source, columns, batch_rows_max))
