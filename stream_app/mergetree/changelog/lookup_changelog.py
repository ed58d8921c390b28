"""``changelog-producer = lookup``: the changes that level 0 brings, whenever it is compacted.

A key's row before is that of the lowest level above 0: in the compaction itself, else further up
(`RowsAbove`). Where deletion vectors merge rows, each row that is found further up gets deleted.

Source: Paimon `mergetree/compact/LookupMergeTreeCompactRewriter.java`,
`LookupChangelogMergeFunctionWrapper.java`, `LookupMergeFunction.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from stream_app.mergetree.changelog.before_rows import Upgrade, WindowBefore, leave_level_0
from stream_app.mergetree.changelog.rows_above import RowsAbove
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import KeyValueLayout, take
from stream_app.mergetree.level_windows import LevelWindow
from stream_app.mergetree.merge_window import sorted_window
from stream_app.model.data_file_meta import DataFileMeta


@dataclass(frozen=True, slots=True)
class LookupChangelog:
    """Implements `BeforeRows`.

    Attributes:
        above: the rows above the compaction's output.
        keeps_newest: the merged row is the newest, by order of arrival. So a file of level 0 that
            overlaps nothing holds merged rows already.
        deletes_found: the rows that are found above get deleted, and no level above 0 may hold a
            delete.
        asks_for_keys: the rows above are found by their keys, to be deleted; they are not merged.
    """

    layout: KeyValueLayout
    max_level: int
    above: RowsAbove
    keeps_newest: bool
    deletes_found: bool = False
    asks_for_keys: bool = False

    def tells(self, sections: Sequence[Section], output_level: int, /) -> bool:
        """Whether rows leave level 0."""
        return output_level != 0 and leave_level_0(sections)

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """Rows of level 0 are new; rows further up may have to be merged into them."""
        if file.level != 0:
            return Upgrade.MOVE
        if self.deletes_found and file.may_have_deletes:
            return Upgrade.REWRITE
        is_merged = output_level == self.max_level or self.keeps_newest
        return Upgrade.TELL if is_merged else Upgrade.REWRITE

    def before(self, given: LevelWindow) -> WindowBefore:
        """The row of the lowest level above 0; all rows below it are merged with it.

        Rows still further up are merged into it already, and are left out.
        """
        batch, order = given.window.batch, given.order
        is_new = given.levels == 0
        may_change = given.any(is_new)
        places = given.lowest_above_0()
        known = places >= 0
        before = [take(batch, order[places[known & may_change]])]
        is_new[places[known]] = True
        window = given.chosen(is_new)
        if not known.all():
            unknown = take(batch, order[given.starts[~known]])
            if self.asks_for_keys:
                keys = self.above.layout
                unknown = unknown.select(list(keys.key_names)).cast(keys.schema)
            older, _ = self.above.rows_of(unknown)
            if older and not self.asks_for_keys:
                before += older
                rows = pa.concat_batches([take(batch, window.order), *older])
                window = sorted_window(rows, self.layout)
        return WindowBefore(window, pa.concat_batches(before), may_change, also_alone=True)
