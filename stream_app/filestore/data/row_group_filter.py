"""Chooses the row groups of a data file that must be read.

Called by data_file_reader with the footer of each file. Parquet's page index is not used: pyarrow
has no access to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow.parquet as pq

from stream_app.filestore.data.stats_filter import StatsFilter, stats_by_name
from stream_app.format.binary_row import is_null
from stream_app.format.column_stats import ColumnStats, row_group_stats
from stream_app.model.schema.data_type import DataField


class RowGroupChoice(Protocol):
    """Chooses the row groups of a file."""

    def row_groups(
        self, footer: pq.FileMetaData, columns: Iterable[tuple[DataField, DataField | None]]
    ) -> Sequence[int]:
        """Numbers of the row groups that must be read.

        Args:
            columns: the columns to read, and their counterparts in the file.
        """
        ...


@dataclass(frozen=True, slots=True)
class RowGroupFilter:
    """A condition on rows, and the columns whose statistics may be used.

    Attributes:
        names: all columns of the condition. Only the key's where versions are merged: pruning a
            version would bring an older one back.
    """

    condition: StatsFilter
    names: frozenset[str]

    def row_groups(
        self, footer: pq.FileMetaData, columns: Iterable[tuple[DataField, DataField | None]]
    ) -> list[int]:
        """Numbers of the row groups in which a row may pass.

        Args:
            columns: the columns to read, and their counterparts in the file.
        """
        asked = [(now, then) for now, then in columns if now.name in self.names]
        stored = [(then.name, then.data_type) for _, then in asked if then is not None]
        groups = range(footer.num_row_groups)
        if not asked:
            return list(groups)
        passing = self.condition.passing(
            (rows, stats_by_name(asked, row_group_stats(footer, group, stored), rows))
            for group in groups
            for rows in (footer.row_group(group).num_rows,)
        )
        return [group for group in groups if passing[group]]


@dataclass(frozen=True, slots=True)
class RowGroupsOfKeys:
    """The row groups of a sorted file that may have one of some keys.

    It uses only the first column of the key, whose values ascend from group to group.

    Attributes:
        name: the name of that column.
        keys: ascending; keys as `format.binary_row.key_order` gives them.
    """

    name: str
    keys: Sequence[Any]

    def row_groups(
        self, footer: pq.FileMetaData, columns: Iterable[tuple[DataField, DataField | None]]
    ) -> list[int]:
        """See `RowGroupChoice.row_groups`; a group of unknown bounds is read."""
        groups = range(footer.num_row_groups)
        for now, then in columns:
            if now.name == self.name and then is not None and then.data_type == now.data_type:
                stored = [(then.name, then.data_type)]
                return [g for g in groups if self._may_be_in(row_group_stats(footer, g, stored)[0])]
        return list(groups)

    def _may_be_in(self, stats: ColumnStats) -> bool:
        if stats.null_count != 0 and self.keys and is_null(self.keys[0][0]):
            return True  # bounds say nothing about nulls
        low, high = (
            bound.encode() if isinstance(bound, str) else bound
            for bound in (stats.minimum, stats.maximum)
        )
        if low is None or high is None:
            return True
        first = bisect_left(self.keys, (low,))
        return first < len(self.keys) and bool(self.keys[first][0] <= high)
