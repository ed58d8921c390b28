"""Reads and writes ORC, which was the default of Paimon before 1.0.

Arrow reads ORC's times as nanoseconds, which cover the years 1678 to 2261. The writer refuses other
times. It also refuses fractions of seconds before 1970, because Java cannot read Arrow's
form. Java itself stores a fraction of the last second before 1970 wrongly.

Source: Paimon `format/orc/OrcFileFormat.java`, `OrcTypeUtil.java`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from stream_app.errors import UnsupportedTableError
from stream_app.format.casting.nested_arrays import with_hidden_nulls
from stream_app.format.column_stats import GatheredStats
from stream_app.format.data_files.damaged_files import (
    ARROW_ERRORS,
    damaged_file_error,
    printable_error,
)
from stream_app.format.data_files.data_file_format import DataFileRead, FileStream
from stream_app.format.data_files.file_batches import batch_pieces
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import FILE_COMPRESSION
from stream_app.model.schema.data_type import DataField, DataType, TypeRoot

_STRIPE_SIZE = 64 << 20
_NANOS_OF_SECOND = 1_000_000_000
_CODECS = {
    "zstd": "zstd",
    "none": "uncompressed",
    "uncompressed": "uncompressed",
    "gzip": "zlib",
    "lz4": "lz4",
    "snappy": "snappy",
}
_OUT_OF_RANGE = "out of range for nanosecond resolution"
_JAVA = "ORC_JAVA"
_FIX_OF_READS = (
    "with the engine that wrote the file, set 'file.format' = 'parquet' and compact the table "
    "fully with 'compaction.force-rewrite-all-files' = 'true'"
)
_FIX_OF_WRITES = "store such times as Parquet: stream-app alter TABLE --set file.format=parquet"


class OrcSink:
    """A writer of an ORC file. Implements `DataFileSink`."""

    def __init__(self, sink: FileStream, schema: pa.Schema, options: CoreOptions) -> None:
        self._stored_schema = pa.schema(
            [field.with_type(_stored_type(field.type)) for field in schema]
        )
        self._stats = GatheredStats(schema)
        self._writer = orc.ORCWriter(
            sink,
            compression=_CODECS[options[FILE_COMPRESSION].lower()],
            stripe_size=_STRIPE_SIZE,
        )
        self._has_rows = False

    def write(self, rows: pa.Table) -> None:
        """Write the rows in ORC's types; ORC's writer decides where a stripe ends."""
        columns = [
            _to_stored(field, column)
            for field, column in zip(self._stored_schema, rows.columns, strict=True)
        ]
        table = pa.Table.from_arrays(columns, schema=self._stored_schema)
        self._writer.write(table)
        self._has_rows = True
        self._stats.add(rows)

    def close(self) -> None:
        """Close the writer; a file without rows gets an empty batch, which names its columns."""
        if not self._has_rows:  # otherwise the file would have no columns
            self._writer.write(self._stored_schema.empty_table())
        self._writer.close()

    def statistics(self) -> GatheredStats:
        """See `DataFileSink.statistics`."""
        return self._stats


class OrcFileFormat:
    """The format ORC. Implements `DataFileFormat`."""

    def open_sink(self, sink: FileStream, schema: pa.Schema, options: CoreOptions) -> OrcSink:
        """See `DataFileFormat.open_sink`."""
        return OrcSink(sink, schema, options)

    def numbered_batches(
        self, source: FileStream, request: DataFileRead
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the batches of the stripes; Arrow reads only times from 1678 to 2261."""
        read_row_count = 0
        try:
            for batch in _batches(orc.ORCFile(source), request):
                yield read_row_count, batch
                read_row_count += batch.num_rows
        except ARROW_ERRORS as error:
            if isinstance(error, OSError) and error.errno not in (None, errno.ENOENT):
                raise
            problem = printable_error(error)
            if _OUT_OF_RANGE in problem:
                raise UnsupportedTableError(
                    f"Arrow reads times of ORC from 1678 to 2261: {problem}", fix=_FIX_OF_READS
                ) from error
            raise damaged_file_error(f"not a readable ORC file: {problem}") from error
        if read_row_count != request.row_count:
            raise damaged_file_error(
                f"a file of {request.row_count} rows has only {read_row_count} in its stripes"
            )


def _batches(file: orc.ORCFile, request: DataFileRead) -> Iterator[pa.RecordBatch]:
    if file.nrows != request.row_count:
        raise damaged_file_error(
            f"a data file has {file.nrows} rows, and its manifest says {request.row_count}"
        )
    names = [field.name for field in request.fields]
    if missing_names := [name for name in names if name not in file.schema.names]:
        raise damaged_file_error(f"a data file lacks the columns {', '.join(missing_names)}")
    padded_names = _padded_columns(request.columns) if file.writer == _JAVA else []
    for stripe in range(file.nstripes):
        rows = file.read_stripe(stripe, columns=names).select(names)
        for name in padded_names:
            trimmed_column = pc.utf8_rtrim(rows.column(name), " ")
            rows = rows.set_column(names.index(name), name, trimmed_column)
        yield from batch_pieces(rows, request.batch_rows_max)


def _padded_columns(columns: Sequence[DataField]) -> list[str]:
    """Return the CHAR columns, which Java's writer pads with blanks and its reader trims.

    Raises:
        UnsupportedTableError: a nested field has the type CHAR.
    """
    for column in columns:
        if column.data_type.is_nested and any(map(_is_char, column.data_type.scalars())):
            raise UnsupportedTableError(
                f"column {column.name!r} has CHAR inside, whose blanks ORC does not keep",
                fix=_FIX_OF_READS,
            )
    return [column.name for column in columns if _is_char(column.data_type)]


def _is_char(data_type: DataType) -> bool:
    return data_type.root is TypeRoot.CHAR


def _to_stored(field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to the form in which ORC stores it.

    Raises:
        UnsupportedTableError: the column has a time that ORC cannot hold.
    """
    try:
        values = column.cast(field.type)
        for chunk in values.chunks:
            _check_times(chunk)
    except pa.ArrowInvalid as error:
        raise UnsupportedTableError(
            f"ORC cannot hold a time of column {field.name!r} exactly: {printable_error(error)}",
            fix=_FIX_OF_WRITES,
        ) from error
    if not pa.types.is_nested(field.type):
        return values
    # Arrow's writer (26.0) stores other rows' values in the fields of null ROWs and of slices.
    return pa.chunked_array([with_hidden_nulls(chunk) for chunk in values.chunks], field.type)


def _check_times(values: pa.Array) -> None:
    """Check that Java can read each time.

    Raises:
        pa.ArrowInvalid: a time before 1970 has a fraction of a second.
    """
    if pa.types.is_timestamp(values.type):
        nanos = values.drop_null().view(pa.int64()).to_numpy()
        fractional_nanos = nanos[(nanos < 0) & (nanos % _NANOS_OF_SECOND != 0)]
        if len(fractional_nanos):
            time = pa.array(fractional_nanos[:1]).cast(values.type)[0]
            raise pa.ArrowInvalid(f"{time}: a fraction of a second before 1970")
    elif pa.types.is_struct(values.type):
        for inner in values.flatten():
            _check_times(inner)
    elif pa.types.is_map(values.type):
        _check_times(values.keys)
        _check_times(values.items)
    elif pa.types.is_list(values.type):
        _check_times(values.flatten())


def _stored_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type for ORC's writer. Times become nanoseconds, which checks their range."""
    if pa.types.is_time32(data_type):
        return pa.int32()
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("ns", data_type.tz)
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_stored_type(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        item = data_type.item_field
        return pa.map_(_stored_type(data_type.key_type), item.with_type(_stored_type(item.type)))
    if pa.types.is_list(data_type):
        value = data_type.value_field
        return pa.list_(value.with_type(_stored_type(value.type)))
    return data_type
