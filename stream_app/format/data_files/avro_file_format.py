"""Reads and writes Avro data files, row by row.

Paimon's Java swaps the names of Avro's logical timestamp types, and so does this module: a
``timestamp`` has no zone. Java reads values by its own types, and assumes that branch 0 of a union
is null.

Source: Paimon `format/avro/AvroFileFormat.java`, `AvroSchemaConverter.java`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from stream_app.format.avro.avro_container import AvroContainer, record_blocks
from stream_app.format.column_stats import GatheredStats
from stream_app.format.data_files.damaged_files import damaged_file_error, printable_error
from stream_app.format.data_files.data_file_format import DataFileRead, FileStream
from stream_app.format.data_files.file_batches import batch_pieces
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.file_options import FILE_COMPRESSION

_CODECS = {
    "zstd": "zstd",
    "none": "null",
    "uncompressed": "null",
    "gzip": "deflate",
    "snappy": "snappy",
}
_RECORD = "org.apache.paimon.avro.generated.record"
_BATCH_ROWS_MAX = 8_192
"""The number of rows that are Python objects at a time."""
_SCALARS: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long", "bool": "boolean", "float": "float", "double": "double", "string": "string",
    "binary": "bytes", "date32[day]": {"type": "int", "logicalType": "date"},
    "time32[ms]": {"type": "int", "logicalType": "time-millis"},
}  # fmt: skip


class AvroSink:
    """A writer of an Avro file. Implements `DataFileSink`."""

    def __init__(self, sink: FileStream, schema: pa.Schema, options: CoreOptions) -> None:
        avro_schema = fastavro.parse_schema(_record(schema, _RECORD))
        self._container = AvroContainer(avro_schema, _CODECS[options[FILE_COMPRESSION].lower()])
        self._sink, self._stats = sink, GatheredStats(schema)
        self._cell_schema = pa.schema([field.with_type(_cell_type(field.type)) for field in schema])
        sink.write(self._container.header({}))

    def write(self, rows: pa.Table) -> None:
        """Write blocks of records; `_BATCH_ROWS_MAX` rows at a time are Python objects."""
        self._stats.add(rows)
        for batch in rows.cast(self._cell_schema).to_batches(max_chunksize=_BATCH_ROWS_MAX):
            columns = [_stored_cells(column) for column in batch.columns]
            names = batch.schema.names
            records = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
            for _, block in self._container.blocks(records):
                self._sink.write(block)

    def close(self) -> None:
        """Do nothing, because each written block is complete."""

    def statistics(self) -> GatheredStats:
        """See `DataFileSink.statistics`."""
        return self._stats


def _record(fields: Sequence[pa.Field], name: str) -> dict[str, Any]:
    members = []
    for field in fields:
        avro_type = _avro_type(field.type, f"{name}_{field.name}", nullable=field.nullable)
        default = {"default": None} if field.nullable else {}
        members.append({"name": field.name, "type": avro_type, **default})
    return {"type": "record", "name": name, "fields": members}


def _avro_type(data_type: pa.DataType, name: str, *, nullable: bool) -> Any:
    """Return the Avro type that Java gives a column; `name` distinguishes a file's records."""
    avro_type: Any
    if pa.types.is_struct(data_type):
        avro_type = _record(list(data_type), name)
    elif pa.types.is_map(data_type):
        item = data_type.item_field
        if pa.types.is_string(data_type.key_type):
            values = _avro_type(item.type, name, nullable=item.nullable)
            avro_type = {"type": "map", "values": values}
        else:
            pair = _record([data_type.key_field.with_name("key"), item.with_name("value")], name)
            avro_type = {"type": "array", "logicalType": "map", "items": pair}
    elif pa.types.is_list(data_type):
        value = data_type.value_field
        avro_type = {
            "type": "array",
            "items": _avro_type(value.type, name, nullable=value.nullable),
        }
    elif pa.types.is_decimal(data_type):
        decimal_attributes = {"precision": data_type.precision, "scale": data_type.scale}
        avro_type = {"type": "bytes", "logicalType": "decimal", **decimal_attributes}
    elif pa.types.is_timestamp(data_type):
        prefix = "local-" if data_type.tz else ""
        unit = "millis" if data_type.unit == "ms" else "micros"
        avro_type = {"type": "long", "logicalType": f"{prefix}timestamp-{unit}"}
    else:
        avro_type = _SCALARS[str(data_type)]
    return ["null", avro_type] if nullable else avro_type


def _cell_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of written values. Times are numbers, because Python's range is small."""
    if pa.types.is_timestamp(data_type):
        return pa.int64()
    if pa.types.is_date32(data_type) or pa.types.is_time32(data_type):
        return pa.int32()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_cell_type(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(key.with_type(_cell_type(key.type)), item.with_type(_cell_type(item.type)))
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_cell_type(data_type.value_type)))
    return data_type


def _stored_cells(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return [_to_avro(value, column.type) for value in values] if _has_map(column.type) else values


def _has_map(data_type: pa.DataType) -> bool:
    types_inside = [data_type.field(index).type for index in range(data_type.num_fields)]
    return pa.types.is_map(data_type) or any(map(_has_map, types_inside))


def _to_avro(value: Any, data_type: pa.DataType) -> Any:
    if value is None or not _has_map(data_type):
        return value
    if pa.types.is_struct(data_type):
        return {field.name: _to_avro(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        pairs = [
            (_to_avro(key, data_type.key_type), _to_avro(item, data_type.item_type))
            for key, item in value
        ]
        if pa.types.is_string(data_type.key_type):
            return dict(pairs)
        return [{"key": key, "value": item} for key, item in pairs]
    return [_to_avro(item, data_type.value_type) for item in value]


class AvroFileFormat:
    """The format Avro. Implements `DataFileFormat`."""

    def open_sink(self, sink: FileStream, schema: pa.Schema, options: CoreOptions) -> AvroSink:
        """See `DataFileFormat.open_sink`."""
        return AvroSink(sink, schema, options)

    def numbered_batches(
        self, source: FileStream, request: DataFileRead
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read the whole file into memory, and yield its columns block by block."""
        read_row_count = 0
        fields = request.fields
        for records in record_blocks(source.read()):
            for batch in batch_pieces(_columns(records, fields), request.batch_rows_max):
                yield read_row_count, batch
                read_row_count += batch.num_rows
        if read_row_count != request.row_count:
            raise damaged_file_error(
                f"a data file has {read_row_count} rows, and its manifest says {request.row_count}"
            )


def _columns(records: Sequence[Any], fields: Sequence[pa.Field]) -> pa.RecordBatch:
    if missing_names := [
        field.name for field in fields if records and field.name not in records[0]
    ]:
        raise damaged_file_error(f"a data file lacks the columns {', '.join(missing_names)}")
    try:
        arrays = [
            pa.array(_cells([record[field.name] for record in records], field.type), field.type)
            for field in fields
        ]
    except (pa.ArrowException, ValueError, TypeError, KeyError, OverflowError) as error:
        raise damaged_file_error(f"not a readable Avro file: {printable_error(error)}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _cells(values: Sequence[Any], data_type: pa.DataType) -> Sequence[Any]:
    """Convert a column's values for Arrow; a MAP, which has two forms in Avro, becomes pairs."""
    if pa.types.is_nested(data_type):
        return [_from_avro(value, data_type) for value in values]
    return values


def _from_avro(value: Any, data_type: pa.DataType) -> Any:
    if value is None or not pa.types.is_nested(data_type):
        return value
    if pa.types.is_struct(data_type):
        return {field.name: _from_avro(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        pairs = value.items() if isinstance(value, dict) else map(dict.values, value)
        return [
            (_from_avro(key, data_type.key_type), _from_avro(item, data_type.item_type))
            for key, item in pairs
        ]
    return [_from_avro(item, data_type.value_type) for item in value]
