"""Reads Avro data files, row by row; stream_app does not write Avro.

Source: Paimon `format/avro/AvroFileFormat.java`, `AvroSchemaConverter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from stream_app.errors import UnsupportedTableError
from stream_app.format.avro.avro_container import record_blocks
from stream_app.format.data_files.data_file_format import DataFileRead, DataFileSink, Source
from stream_app.format.key_value_parquet import batch_pieces, damaged_file_error, printable_error
from stream_app.model.options.core_options import CoreOptions


class AvroFiles:
    """Implements `DataFileFormat`."""

    def open_sink(self, sink: Source, schema: pa.Schema, options: CoreOptions) -> DataFileSink:
        """See `DataFileFormat.open_sink`."""
        del sink, schema, options
        raise UnsupportedTableError(
            "stream_app does not write data files of Avro",
            fix="write Parquet beside them: stream-app alter TABLE --set file.format=parquet",
        )

    def placed_batches(
        self, source: Source, wanted: DataFileRead
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See `DataFileFormat.placed_batches`."""
        place, fields = 0, wanted.fields
        for records in record_blocks(source.read()):
            for batch in batch_pieces(_columns(records, fields), wanted.batch_rows):
                yield place, batch
                place += batch.num_rows
        if place != wanted.row_count:
            raise damaged_file_error(
                f"a data file has {place} rows, and its manifest says {wanted.row_count}"
            )


def _columns(records: Sequence[Any], fields: Sequence[pa.Field]) -> pa.RecordBatch:
    if missing := [field.name for field in fields if records and field.name not in records[0]]:
        raise damaged_file_error(f"a data file lacks the columns {', '.join(missing)}")
    try:
        arrays = [
            pa.array(_cells([record[field.name] for record in records], field.type), field.type)
            for field in fields
        ]
    except (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError) as error:
        raise damaged_file_error(f"not a readable Avro file: {printable_error(error)}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _cells(values: Sequence[Any], data_type: pa.DataType) -> Sequence[Any]:
    """Values of a column in the form of Arrow: a MAP as pairs, which Avro has in two forms."""
    if pa.types.is_nested(data_type):
        return [_nested(value, data_type) for value in values]
    return values


def _nested(value: Any, data_type: pa.DataType) -> Any:
    if value is None or not pa.types.is_nested(data_type):
        return value
    if pa.types.is_struct(data_type):
        return {field.name: _nested(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        pairs = value.items() if isinstance(value, dict) else map(dict.values, value)
        return [
            (_nested(key, data_type.key_type), _nested(item, data_type.item_type))
            for key, item in pairs
        ]
    return [_nested(item, data_type.value_type) for item in value]
