"""Describes a source table from messages of any dialect: names, types where given, and the key.

Implements `describe` and `find_versions` of `message_format.SourceExtractor`. A dialect describes
one message. A field whose message gives no type becomes a STRING column, which holds every value.

Source: Paimon `flink/action/cdc/format/AbstractJsonRecordParser.java`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from stream_app.cdc.json_records.dialect import Dialect
from stream_app.cdc.message_format import SeenTableVersion
from stream_app.cdc.source_types.remarks import inexact_remarks
from stream_app.cdc.source_types.stored_times import StoredType
from stream_app.model.schema.data_type import STRING
from stream_app.model.source.mapping_options import MappingOptions
from stream_app.model.source.source_table import SourceColumn, SourceTable, merged_source_table


def describe(
    dialect: Dialect, messages: pa.RecordBatch, options: MappingOptions
) -> SourceTable | None:
    """Return the table that these messages describe; see `SourceExtractor.describe`."""
    tables = [version.table for version in versions(dialect, messages, options)]
    return functools.reduce(merged_source_table, tables) if tables else None


def versions(
    dialect: Dialect, messages: pa.RecordBatch, options: MappingOptions
) -> Sequence[SeenTableVersion]:
    """Return the table's versions by their first messages; see `SourceExtractor.find_versions`."""
    rows_of_tables: dict[SourceTable, list[int]] = {}
    keys = messages.column("key").to_pylist()
    for message_index, value in enumerate(messages.column("value").to_pylist()):
        document = json_or_none(value)
        if isinstance(document, dict):
            table = dialect.described_table(document, json_or_none(keys[message_index]), options)
            if table is not None and table.columns:
                rows_of_tables.setdefault(table, []).append(message_index)
    return [
        SeenTableVersion(np.array(rows, np.int64), table) for table, rows in rows_of_tables.items()
    ]


def json_or_none(text: Any) -> Any:
    """Parse JSON text; None for null and for invalid JSON."""
    try:
        return None if text is None else orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def untyped_table(
    names: Iterable[str], keys: Any, types: Mapping[str, StoredType] | None = None
) -> SourceTable:
    """Return a table with these columns, of type STRING unless another type is given.

    Args:
        keys: the names of the key's columns, if the messages' field for them has a list.
    """
    types = types or {}
    columns = tuple(
        _source_column(name, types[name])
        if name in types
        else SourceColumn(name=name, data_type=STRING, is_typed=False)
        for name in dict.fromkeys(names)
    )
    key_names = tuple(map(str, keys)) if isinstance(keys, list | tuple) else ()
    return with_key(SourceTable(columns=columns), (key_names,))


def _source_column(name: str, stored_type: StoredType) -> SourceColumn:
    return SourceColumn(
        name=name,
        data_type=stored_type.data_type,
        alternatives=stored_type.alternatives,
        remarks=tuple(inexact_remarks(stored_type)),
    )


def with_key(table: SourceTable, keys: Iterable[tuple[str, ...]]) -> SourceTable:
    """Return the table with a key: the first whose columns the table has; they become NOT NULL.

    Args:
        keys: the names of each key's columns.
    """
    names = {column.name for column in table.columns}
    primary_key = next((key for key in keys if key and names.issuperset(key)), ())
    return replace(
        table,
        primary_keys=primary_key,
        columns=tuple(
            replace(column, data_type=column.data_type.not_null())
            if column.name in primary_key
            else column
            for column in table.columns
        ),
    )
