"""Which row groups of a data file are worth reading.

Called by data_file_reader with the footer of each file. Parquet's page index is not used: pyarrow
has no access to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow.parquet as pq

from stream_app.filestore.data.stats_filter import StatsFilter, stats_by_name
from stream_app.format.column_stats import row_group_stats
from stream_app.model.schema.data_type import DataField


@dataclass(frozen=True, slots=True)
class RowGroupFilter:
    """A condition on rows, and the columns whose statistics may be asked.

    Attributes:
        names: all columns of the condition. Where versions of a key are merged only the key's:
            pruning a version would bring an older one back.
    """

    condition: StatsFilter
    names: frozenset[str]

    def row_groups(
        self, footer: pq.FileMetaData, columns: Iterable[tuple[DataField, DataField | None]]
    ) -> list[int]:
        """Numbers of the row groups in which a row may pass.

        Args:
            columns: those that are read, and what each is in the file.
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
