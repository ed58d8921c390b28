"""Reads the options of file indexes: indexed columns, with the kinds and settings of indexes.

``file-index.bloom-filter.columns = a,b`` names the columns of a kind, and
``file-index.bloom-filter.a.fpp = 0.01`` a setting of one of them. Only Paimon writes an index of a
MAP's key, ``m[key]``: stream_app's files lack it, and its readers ignore it.
`schema.file_index_problems` defines which types of columns can have which kinds.

Source: Paimon `fileindex/FileIndexOptions.java`, and the factories of the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from stream_app.model.options.option import parse_integer, parse_memory_size, parse_real

FILE_INDEX_PREFIX = "file-index."
COLUMNS_SUFFIX = ".columns"


def _check_items(text: str) -> None:
    if parse_integer(text) < 1:
        raise ValueError("is below the minimum 1")


def _check_rate(text: str) -> None:
    if not 0 < parse_real(text) < 1:
        raise ValueError("is not above 0 and below 1")


def _check_version(text: str) -> None:
    if text not in ("1", "2"):
        raise ValueError("is neither 1 nor 2")


INDEX_SETTINGS: Mapping[str, Mapping[str, Callable[[str], object]]] = {
    "bloom-filter": {"fpp": _check_rate, "items": _check_items},
    "bitmap": {"index-block-size": parse_memory_size, "version": _check_version},
    "bsi": {},
    "range-bitmap": {"chunk-size": parse_memory_size},
}
"""The kinds of indexes by name, each with its settings of a column and their checks."""


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """One index of one column.

    Attributes:
        settings: the index's settings, such as ``{"fpp": "0.01"}``.
    """

    column: str
    kind: str
    settings: Mapping[str, str] = field(default_factory=dict)


def is_written(file_index: IndexedColumn) -> bool:
    """Return whether stream_app's data files get such an index, if the column's type allows it."""
    return file_index.kind in INDEX_SETTINGS and not file_index.column.endswith("]")


def indexed_columns(options: Mapping[str, str]) -> tuple[IndexedColumn, ...]:
    """Return the indexes that a table's options define, each once, in the order of the options."""
    indexes: dict[tuple[str, str], IndexedColumn] = {}
    for key, value in options.items():
        if not _names_columns(key):
            continue
        kind = key.removeprefix(FILE_INDEX_PREFIX).removesuffix(COLUMNS_SUFFIX)
        for name in _split_names(value):
            prefix = f"{FILE_INDEX_PREFIX}{kind}.{name}."
            settings = {
                setting.removeprefix(prefix): text
                for setting, text in options.items()
                if setting.startswith(prefix)
            }
            indexes[name, kind] = IndexedColumn(name, kind, settings)
    return tuple(indexes.values())


def setting_parts(key: str) -> tuple[str, ...]:
    """Return the kind, column and setting that an index option names; empty for other options."""
    parts = tuple(key.removeprefix(FILE_INDEX_PREFIX).split("."))
    return parts if key.startswith(FILE_INDEX_PREFIX) and len(parts) == 3 else ()


def rename_in_index_options(
    options: Mapping[str, str], old_name: str, new_name: str
) -> dict[str, str]:
    """Return the options with a column's new name, in keys and in lists of columns."""
    result = {}
    for key, value in options.items():
        parts = setting_parts(key)
        if _names_columns(key):
            result[key] = ",".join(
                new_name if name == old_name else name for name in _split_names(value)
            )
        elif parts and parts[1] == old_name:
            result[f"{FILE_INDEX_PREFIX}{parts[0]}.{new_name}.{parts[2]}"] = value
        else:
            result[key] = value
    return result


def without_indexes_of(options: Mapping[str, str], column: str) -> dict[str, str]:
    """Return the options without the indexes of a column."""
    result = {}
    for key, value in options.items():
        parts = setting_parts(key)
        if _names_columns(key):
            remaining_names = [
                name for name in _split_names(value) if name.partition("[")[0] != column
            ]
            if remaining_names:
                result[key] = ",".join(remaining_names)
        elif not (parts and parts[1] == column):
            result[key] = value
    return result


def _names_columns(key: str) -> bool:
    return key.startswith(FILE_INDEX_PREFIX) and key.endswith(COLUMNS_SUFFIX)


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
