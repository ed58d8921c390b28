"""Avro, which stream_app reads and does not write: its rows are decoded one by one.

Source: Paimon `format/avro/AvroFileFormat.java`, `AvroSchemaConverter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from stream_app.errors import UnsupportedTableError
from stream_app.format.arrow_schema import stored_fields
from stream_app.format.avro.avro_container import record_blocks
from stream_app.format.data_files.data_file_format import DataFileSink, RowGroups, Source
from stream_app.format.key_value_parquet import damaged, pieces, printable
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.schema.data_type import DataField


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
        self,
        source: Source,
        system: Sequence[pa.Field],
        columns: Sequence[DataField],
        row_count: int,
        batch_rows: int,
        row_groups: RowGroups | None,  # noqa: ARG002 - it has no footer
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """See `DataFileFormat.placed_batches`."""
        place, fields = 0, [*system, *stored_fields(columns)]
        for records in record_blocks(source.read()):
            for batch in pieces(_columns(records, fields), batch_rows):
                yield place, batch
                place += batch.num_rows
        if place != row_count:
            raise damaged(f"a data file has {place} rows, and its manifest says {row_count}")


def _columns(records: Sequence[Any], fields: Sequence[pa.Field]) -> pa.RecordBatch:
    if missing := [field.name for field in fields if records and field.name not in records[0]]:
        raise damaged(f"a data file lacks the columns {', '.join(missing)}")
    try:
        arrays = [
            pa.array(_cells([record[field.name] for record in records], field.type), field.type)
            for field in fields
        ]
    except (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError) as error:
        raise damaged(f"not a readable Avro file: {printable(error)}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _cells(values: Sequence[Any], data_type: pa.DataType) -> Sequence[Any]:
    """Values of a column as Arrow takes them: a MAP as pairs, which Avro has in two forms."""
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
