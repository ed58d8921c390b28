"""The indexed columns of a table's data files, with the kinds and settings of their indexes.

``file-index.bloom-filter.columns = a,b`` names the columns of a kind, and
``file-index.bloom-filter.a.fpp = 0.01`` a setting of one of them. An index of a MAP's key,
``m[key]``, is Paimon's alone: our files have none, and readers pass over it.

Source: Paimon `fileindex/FileIndexOptions.java`, and the factories of the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from stream_app.model.near_names import did_you_mean, unknown_name
from stream_app.model.options.option import parse_integer, parse_memory_size, parse_real
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

PREFIX = "file-index."
COLUMNS = ".columns"
_LONG_DIGITS = 18
_MICROS = 6


def _check_items(text: str) -> None:
    if parse_integer(text) < 1:
        raise ValueError("is below the least value 1")


def _check_rate(text: str) -> None:
    if not 0 < parse_real(text) < 1:
        raise ValueError("is not above 0 and below 1")


def _check_version(text: str) -> None:
    if text not in ("1", "2"):
        raise ValueError("is neither 1 nor 2")


@dataclass(frozen=True, slots=True)
class IndexKindTraits:
    """The facts about one kind of index that options depend on.

    Attributes:
        roots: types of columns that have it, besides `_NUMBERS`.
        settings: of a column, and the check of each one's value.
        micros_only: it knows no time of less than a microsecond.
    """

    roots: frozenset[TypeRoot]
    settings: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    micros_only: bool = False


_NUMBERS = INTEGER_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.TIME}
_DECIMAL, _BOOLEAN = frozenset({TypeRoot.DECIMAL}), frozenset({TypeRoot.BOOLEAN})
INDEX_KINDS = {
    "bloom-filter": IndexKindTraits(
        STRING_ROOTS | BINARY_ROOTS | FLOAT_ROOTS, {"fpp": _check_rate, "items": _check_items}
    ),
    "bitmap": IndexKindTraits(
        STRING_ROOTS | FLOAT_ROOTS | _BOOLEAN,
        {"index-block-size": parse_memory_size, "version": _check_version},
    ),
    "bsi": IndexKindTraits(_DECIMAL),
    "range-bitmap": IndexKindTraits(
        STRING_ROOTS | FLOAT_ROOTS | _BOOLEAN | _DECIMAL,
        {"chunk-size": parse_memory_size},
        micros_only=True,
    ),
}
"""The kinds of indexes by name."""


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """One index of one column.

    Attributes:
        settings: such as ``{"fpp": "0.01"}``.
    """

    column: str
    kind: str
    settings: Mapping[str, str] = field(default_factory=dict)


def can_index(kind: str, data_type: DataType) -> bool:
    """Whether a column of a type can have an index of a kind."""
    traits = INDEX_KINDS.get(kind)
    if traits is None or data_type.root not in _NUMBERS | traits.roots:
        return False
    if data_type.root is TypeRoot.DECIMAL:
        return data_type.precision <= _LONG_DIGITS
    is_fine = data_type.root in TIMESTAMP_ROOTS and data_type.precision > _MICROS
    return not (traits.micros_only and is_fine)


def is_written(index: IndexedColumn) -> bool:
    """Whether our data files have such an index, if the column's type allows it."""
    return index.kind in INDEX_KINDS and not index.column.endswith("]")


def indexed_columns(options: Mapping[str, str]) -> tuple[IndexedColumn, ...]:
    """The indexes that a table's options ask for, each once, in the order of the options."""
    indexes: dict[tuple[str, str], IndexedColumn] = {}
    for key, value in options.items():
        if not _names_columns(key):
            continue
        kind = key.removeprefix(PREFIX).removesuffix(COLUMNS)
        for name in _names(value):
            prefix = f"{PREFIX}{kind}.{name}."
            settings = {
                setting.removeprefix(prefix): text
                for setting, text in options.items()
                if setting.startswith(prefix)
            }
            indexes[name, kind] = IndexedColumn(name, kind, settings)
    return tuple(indexes.values())


def file_index_problems(columns: RowType, options: Mapping[str, str]) -> Iterator[str]:
    """The reasons why Paimon could not write a table with these indexes."""
    indexes = indexed_columns(options)
    for index in indexes:
        yield from _index_problems(columns, index)
    declared = {(index.kind, index.column.partition("[")[0]) for index in indexes}
    for key in options:
        parts = _setting_parts(key)
        if parts and (parts[0], parts[1]) not in declared:
            yield (
                f"option {key!r} is of an index that is not there: name {parts[1]!r} in "
                f"'{PREFIX}{parts[0]}{COLUMNS}'"
            )


def _index_problems(columns: RowType, index: IndexedColumn) -> Iterator[str]:
    key = f"{PREFIX}{index.kind}{COLUMNS}"
    traits = INDEX_KINDS.get(index.kind)
    if traits is None:
        yield f"option {key!r}: {unknown_name('kind of index', index.kind, INDEX_KINDS)}"
        return
    if index.column not in columns.names:
        is_key = index.column.endswith("]") and index.column.partition("[")[0] in columns.names
        meant = did_you_mean(index.column, columns.names)
        yield f"option {key!r} names {index.column!r}, which is " + (
            "a key of a MAP: stream_app indexes none" if is_key else f"no column{meant}"
        )
        return
    data_type = columns.field(index.column).data_type
    if not can_index(index.kind, data_type):
        yield f"option {key!r} names {index.column!r}, which is {data_type}: it has no such index"
    for setting, text in index.settings.items():
        given = f"option '{PREFIX}{index.kind}.{index.column}.{setting}'"
        check = traits.settings.get(setting)
        if check is None:
            yield f"{given}: {unknown_name('setting', setting, traits.settings)}"
            continue
        try:
            check(text)
        except ValueError as problem:
            yield f"{given}: {text!r} {problem}"


def renamed_in_index_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options with a column's new name, in keys and in lists of columns."""
    result = {}
    for key, value in options.items():
        parts = _setting_parts(key)
        if _names_columns(key):
            result[key] = ",".join(new if name == old else name for name in _names(value))
        elif parts and parts[1] == old:
            result[f"{PREFIX}{parts[0]}.{new}.{parts[2]}"] = value
        else:
            result[key] = value
    return result


def without_indexes_of(options: Mapping[str, str], column: str) -> dict[str, str]:
    """The options without the indexes of a column."""
    result = {}
    for key, value in options.items():
        parts = _setting_parts(key)
        if _names_columns(key):
            kept = [name for name in _names(value) if name.partition("[")[0] != column]
            if kept:
                result[key] = ",".join(kept)
        elif not (parts and parts[1] == column):
            result[key] = value
    return result


def _names_columns(key: str) -> bool:
    return key.startswith(PREFIX) and key.endswith(COLUMNS)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _setting_parts(key: str) -> tuple[str, ...]:
    """Kind, column and setting of an option of an index; empty: it is of none."""
    parts = tuple(key.removeprefix(PREFIX).split("."))
    return parts if key.startswith(PREFIX) and len(parts) == 3 else ()
