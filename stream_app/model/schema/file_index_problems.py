"""Decides which columns can have a file index, and reports impossible index options.

Source: the factories of the kinds in Paimon's `fileindex`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stream_app.model.near_names import did_you_mean, unknown_name
from stream_app.model.options.indexed_columns import (
    COLUMNS_SUFFIX,
    FILE_INDEX_PREFIX,
    INDEX_SETTINGS,
    IndexedColumn,
    indexed_columns,
    setting_parts,
)
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    RowType,
    TypeRoot,
)

_LONG_DIGITS = 18
_MICROS = 6
_NUMBERS = INTEGER_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.TIME}
_DECIMAL, _BOOLEAN = frozenset({TypeRoot.DECIMAL}), frozenset({TypeRoot.BOOLEAN})
_ROOTS = {
    "bloom-filter": STRING_ROOTS | BINARY_ROOTS | FLOAT_ROOTS,
    "bitmap": STRING_ROOTS | FLOAT_ROOTS | _BOOLEAN,
    "bsi": _DECIMAL,
    "range-bitmap": STRING_ROOTS | FLOAT_ROOTS | _BOOLEAN | _DECIMAL,
}
"""The types of columns that have a kind of index, besides `_NUMBERS`."""
_MICROSECOND_KINDS = frozenset({"range-bitmap"})
"""The kinds that know no time of less than a microsecond."""


def can_index(kind: str, data_type: DataType) -> bool:
    """Return whether a column of a type can have an index of a kind."""
    roots = _ROOTS.get(kind)
    if roots is None or data_type.root not in _NUMBERS | roots:
        return False
    if data_type.root is TypeRoot.DECIMAL:
        return data_type.precision <= _LONG_DIGITS
    is_below_micros = data_type.root in TIMESTAMP_ROOTS and data_type.precision > _MICROS
    return not (kind in _MICROSECOND_KINDS and is_below_micros)


def file_index_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """Yield the reasons why Paimon could not write a table with these indexes."""
    indexes = indexed_columns(options)
    for index in indexes:
        yield from _index_problems(columns, index)
    declared_indexes = {(index.kind, index.column.partition("[")[0]) for index in indexes}
    for key in options:
        parts = setting_parts(key)
        if parts and (parts[0], parts[1]) not in declared_indexes:
            yield (
                f"option {key!r} is of an index that is not there: name {parts[1]!r} in "
                f"'{FILE_INDEX_PREFIX}{parts[0]}{COLUMNS_SUFFIX}'"
            )


def _index_problems(columns: RowType, file_index: IndexedColumn) -> Iterator[str]:
    """Yield problems with one index: its kind, its column and its settings."""
    key = f"{FILE_INDEX_PREFIX}{file_index.kind}{COLUMNS_SUFFIX}"
    settings = INDEX_SETTINGS.get(file_index.kind)
    if settings is None:
        yield f"option {key!r}: {unknown_name('kind of index', file_index.kind, INDEX_SETTINGS)}"
        return
    if file_index.column not in columns.names:
        is_key = (
            file_index.column.endswith("]") and file_index.column.partition("[")[0] in columns.names
        )
        suggestion = did_you_mean(file_index.column, columns.names)
        yield f"option {key!r} names {file_index.column!r}, which is " + (
            "a key of a MAP: stream_app indexes none" if is_key else f"no column{suggestion}"
        )
        return
    data_type = columns.field(file_index.column).data_type
    if not can_index(file_index.kind, data_type):
        yield (
            f"option {key!r} names {file_index.column!r}, which is {data_type}: "
            "it has no such index"
        )
    for setting, text in file_index.settings.items():
        option = f"option '{FILE_INDEX_PREFIX}{file_index.kind}.{file_index.column}.{setting}'"
        check = settings.get(setting)
        if check is None:
            yield f"{option}: {unknown_name('setting', setting, settings)}"
            continue
        try:
            check(text)
        except ValueError as problem:
            yield f"{option}: {text!r} {problem}"
