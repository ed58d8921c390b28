"""Computes a data file's manifest statistics, from Parquet's footer or from its rows.

Readers skip files by these statistics, so a bound may be too wide but never too narrow. If one
bound is uncertain, both are unknown. This module uses the footer's raw values, because Python's
datetimes are rounded and end in the year 9999.

Source: Paimon `format/parquet/ParquetSimpleStatsExtractor.java`,
`statistics/TruncateSimpleColStatsCollector.java`, `stats/SimpleStatsConverter.java`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Context
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stream_app.errors import UsageError
from stream_app.format.arrow_schema import timestamp_unit
from stream_app.format.binary_row import scaled_decimal, serialize_row
from stream_app.model.files.data_file_meta import SimpleStats
from stream_app.model.schema.data_type import (
    BINARY_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    DataType,
    TypeRoot,
)

DEFAULT_MODE = "truncate(16)"
"""``metadata.stats-mode`` of Paimon."""
_KEY_MODE = "truncate(128)"
_EXACT = Context(prec=76)
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_NANOS_OF_UNIT = {"ms": 1_000_000, "us": 1_000}


@dataclass(frozen=True, slots=True)
class StatsMode:
    """``metadata.stats-mode``: the facts that a writer records about a column.

    Attributes:
        characters_max: the length to which bounds of texts are truncated; None if bounds are whole.
    """

    has_counts: bool
    has_bounds: bool
    characters_max: int | None


def _parse_mode(text: str) -> StatsMode:
    mode = text.strip().lower()
    if mode == "none":
        return StatsMode(has_counts=False, has_bounds=False, characters_max=None)
    if mode == "counts":
        return StatsMode(has_counts=True, has_bounds=False, characters_max=None)
    if mode == "full":
        return StatsMode(has_counts=True, has_bounds=True, characters_max=None)
    match = re.fullmatch(r"truncate\((\d+)\)", mode)
    if match and int(match[1]) > 0:
        return StatsMode(has_counts=True, has_bounds=True, characters_max=int(match[1]))
    raise UsageError(
        f"option 'metadata.stats-mode': {text!r} is not supported",
        fix="use none, counts, truncate(n) with n ≥ 1, or full",
    )


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """The statistics of a column; None is unknown.

    Attributes:
        minimum, maximum: bounds of all values, in the convention of `binary_row`.
        null_count: the number of nulls; None if the column has no statistics.
    """

    minimum: object = None
    maximum: object = None
    null_count: int | None = None


UNKNOWN_STATS = ColumnStats()


class StatsSource(Protocol):
    """The source of the statistics of one file's columns."""

    def column(
        self, name: str, data_type: DataType, mode: StatsMode, *, reads_bounds: bool
    ) -> ColumnStats:
        """Return the statistics of a column of the file.

        Args:
            reads_bounds: whether the caller needs minimum and maximum.
        """
        ...


def value_stats(
    source: StatsSource,
    columns: Sequence[tuple[str, DataType]],
    *,
    without_bounds: Collection[str] = (),
    without_stats: Collection[str] = (),
    mode: str = DEFAULT_MODE,
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """Compute ``_VALUE_STATS`` and ``_VALUE_STATS_COLS`` of a file.

    Args:
        columns: names in the file and types, in the order of the schema.
        without_bounds: columns whose bounds must stay unknown: FLOAT and DOUBLE columns with NaN,
            which Parquet's statistics ignore.
        without_stats: columns without any statistics, not even a null count.
        mode: ``metadata.stats-mode``.

    Returns:
        The statistics of the columns with known ones, and their names; None instead of the names if
        these are all columns (``metadata.stats-dense-store``).

    Raises:
        UsageError: Paimon has no such `mode`.
    """
    stats_mode = _parse_mode(mode)
    all_stats = [
        UNKNOWN_STATS
        if name in without_stats or not stats_mode.has_counts
        else source.column(
            name,
            data_type,
            stats_mode,
            reads_bounds=name not in without_bounds and stats_mode.has_bounds,
        )
        for name, data_type in columns
    ]
    known_indices = [index for index, stats in enumerate(all_stats) if stats.null_count is not None]
    stats = _simple_stats(
        [all_stats[index] for index in known_indices],
        [columns[index][1] for index in known_indices],
    )
    if len(known_indices) == len(columns):
        return stats, None
    return stats, tuple(columns[index][0] for index in known_indices)


def key_stats(source: StatsSource, columns: Sequence[tuple[str, DataType]]) -> SimpleStats:
    """Compute ``_KEY_STATS``, always of all key columns, with strings truncated to 128 characters.

    Args:
        columns: names in the file (``_KEY_id``, or ``id`` in a thin file) and types.
    """
    stats_mode = _parse_mode(_KEY_MODE)
    all_stats = [
        source.column(name, data_type, stats_mode, reads_bounds=True) for name, data_type in columns
    ]
    # Parquet has no statistics of INT96 columns, but most key columns have no nulls anyway.
    all_stats = [
        stats if data_type.nullable else replace(stats, null_count=stats.null_count or 0)
        for stats, (_, data_type) in zip(all_stats, columns, strict=True)
    ]
    return _simple_stats(all_stats, [data_type for _, data_type in columns])


def row_group_stats(
    footer: pq.FileMetaData, group: int, columns: Sequence[tuple[str, DataType]]
) -> list[ColumnStats]:
    """Return Parquet's statistics of one row group.

    Args:
        columns: names in the file, and their types in the file's schema.
    """
    mode = _parse_mode("full")
    source = FooterStats(footer, groups=(group,))
    return [source.column(name, data_type, mode, reads_bounds=True) for name, data_type in columns]


def bounds_of_footer(low: Any, high: Any, data_type: DataType) -> tuple[object, object]:
    """Convert raw bounds of a footer or page index to `ColumnStats`' form; both None if unknown."""
    return _bounds([(low, high)], data_type, _parse_mode("full"))


def _simple_stats(columns: Sequence[ColumnStats], types: Sequence[DataType]) -> SimpleStats:
    return SimpleStats(
        min_values=serialize_row([column.minimum for column in columns], types),
        max_values=serialize_row([column.maximum for column in columns], types),
        null_counts=tuple(column.null_count for column in columns),
    )


class FooterStats:
    """The statistics in Parquet's footer, of all row groups or of some.

    Args:
        groups: the numbers of row groups; None: all.
    """

    def __init__(self, footer: pq.FileMetaData, groups: Sequence[int] | None = None) -> None:
        self._footer = footer
        self._groups = range(footer.num_row_groups) if groups is None else groups
        schema = footer.schema  # pyarrow recreates it at each access
        self._column_indices = {
            schema.column(index).path: index for index in range(footer.num_columns)
        }

    def column(
        self, name: str, data_type: DataType, mode: StatsMode, *, reads_bounds: bool
    ) -> ColumnStats:
        """Combine a column's statistics of all row groups; unknown if one of them has none."""
        index = self._column_indices.get(name)
        if index is None:
            return UNKNOWN_STATS
        null_count = 0
        group_bounds: list[tuple[Any, Any]] = []
        reads_bounds = reads_bounds and has_usable_bounds(self._footer, index, data_type)
        for group in self._groups:
            chunk = self._footer.row_group(group).column(index)
            statistics = chunk.statistics if chunk.is_stats_set else None
            if statistics is None or not statistics.has_null_count:
                return UNKNOWN_STATS
            null_count += statistics.null_count
            if statistics.has_min_max:
                group_bounds.append((statistics.min_raw, statistics.max_raw))
            elif statistics.null_count < chunk.num_values:
                reads_bounds = False  # this row group has values with unknown bounds
        if not reads_bounds or not group_bounds:
            return ColumnStats(null_count=null_count)
        minimum, maximum = _bounds(group_bounds, data_type, mode)
        return ColumnStats(minimum, maximum, null_count)


class GatheredStats:
    """The statistics of rows that the writer of a file collects where its format has none.

    Args:
        schema: the schema of the file.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._nulls = dict.fromkeys(schema.names, 0)
        self._bounds: dict[str, list[tuple[Any, Any]]] = {name: [] for name in schema.names}

    def add(self, rows: pa.Table) -> None:
        """Count rows that are written."""
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            self._nulls[name] += column.null_count
            if column.null_count < len(column) and not _is_unordered(column.type):
                extremes = pc.min_max(column)
                self._bounds[name].append(
                    (_raw_value(extremes["min"]), _raw_value(extremes["max"]))
                )

    def column(
        self, name: str, data_type: DataType, mode: StatsMode, *, reads_bounds: bool
    ) -> ColumnStats:
        """Return the statistics that `add` has gathered; unknown for a nested type."""
        if name not in self._nulls or data_type.is_nested:
            return UNKNOWN_STATS
        null_count = self._nulls[name]
        if not reads_bounds or not self._bounds[name]:
            return ColumnStats(null_count=null_count)
        minimum, maximum = _bounds(self._bounds[name], data_type, mode)
        return ColumnStats(minimum, maximum, null_count)


def _is_unordered(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_nested(data_type) or pa.types.is_binary(data_type))


def _raw_value(scalar: pa.Scalar) -> Any:
    """Convert a value to its form in Parquet's footer."""
    if pa.types.is_decimal(scalar.type):
        return int(scalar.as_py().scaleb(scalar.type.scale, _EXACT))
    if pa.types.is_temporal(scalar.type):
        return scalar.value
    return scalar.as_py()


def _bounds(
    group_bounds: Sequence[tuple[Any, Any]], data_type: DataType, mode: StatsMode
) -> tuple[object, object]:
    """Return the minimum and maximum of the row groups' raw bounds; both None if unknown."""
    lows = [_python_value(low, data_type) for low, _ in group_bounds]
    highs = [_python_value(high, data_type) for _, high in group_bounds]
    if any(value != value for value in (*lows, *highs)):  # noqa: PLR0124 - NaN, from Java's footers
        return None, None
    # Strings compare by code points here and by UTF-8 bytes in Paimon; the order is the same.
    minimum = min(lows)
    maximum = max(highs)
    if data_type.root in STRING_ROOTS and mode.characters_max is not None:
        truncated_maximum = _truncate_max(maximum, mode.characters_max)
        return (
            None if truncated_maximum is None else minimum[: mode.characters_max]
        ), truncated_maximum
    return minimum, maximum


def has_usable_bounds(footer: pq.FileMetaData, column_index: int, data_type: DataType) -> bool:
    """Return whether Paimon uses Parquet's bounds of a column."""
    # Paimon 1.4 keeps no bounds of binary columns, and INT96 timestamps have no order in Parquet.
    if data_type.root in BINARY_ROOTS:
        return False
    if data_type.root not in TIMESTAMP_ROOTS:
        return True
    unit = timestamp_unit(data_type.precision)
    return unit in _NANOS_OF_UNIT and footer.schema.column(column_index).physical_type == "INT64"


def _python_value(raw: Any, data_type: DataType) -> Any:
    """Convert a raw value of the footer to the convention of `binary_row`."""
    root = data_type.root
    if root in STRING_ROOTS:
        return raw.decode() if isinstance(raw, bytes) else raw
    if root is TypeRoot.DECIMAL:
        unscaled_value = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
        return scaled_decimal(unscaled_value, data_type.scale)
    if root in TIMESTAMP_ROOTS:
        return raw * _NANOS_OF_UNIT[timestamp_unit(data_type.precision)]
    return raw


def _truncate_max(text: str, characters_max: int) -> str | None:
    """Return an upper bound of at most `characters_max` code points; None if there is none."""
    if len(text) <= characters_max:
        return text
    for index in reversed(range(characters_max)):
        code_point = ord(text[index]) + 1
        if code_point in _SURROGATES:
            # Java does not skip surrogates and stores "?", which is less than the text.
            code_point = _SURROGATES.stop
        if code_point <= _LAST_CODE_POINT:
            return text[:index] + chr(code_point)
    return None
