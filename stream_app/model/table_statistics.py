"""Statistics of a table for the planners of engines: rows, bytes, and facts of columns.

Source: Paimon `stats/Statistics.java`, `stats/ColStats.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """Statistics of one column; None is unknown.

    Attributes:
        least: text of the least value, as Paimon writes the type.
        greatest: as `least`.
        average_length: of its values, rounded up: characters, or bytes.
        longest: length of the longest value.
    """

    column_id: int
    distinct_count: int
    null_count: int
    least: str | None = None
    greatest: str | None = None
    average_length: int | None = None
    longest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatistics:
    """Statistics of one version of a table.

    Attributes:
        snapshot_id: the version whose rows were read.
        schema_id: the schema that has the columns.
        row_count: rows that readers see.
        byte_count: their share of the bytes of all data files.
    """

    snapshot_id: int
    schema_id: int
    row_count: int
    byte_count: int
    columns: Mapping[str, ColumnStatistics]
