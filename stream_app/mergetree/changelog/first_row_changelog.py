"""``merge-engine = first-row``: rows of level 0 whose key is new.

Readers do not merge the levels above 0 of such a table. So no key may be on two of them: a row is
dropped when its key lies above the output.

Source: Paimon `mergetree/compact/FirstRowMergeFunctionWrapper.java`,
`LookupMergeTreeCompactRewriter.java` (`FirstRowMergeFunctionWrapperFactory`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stream_app.mergetree.changelog.before_rows import Upgrade, WindowBefore, leave_level_0
from stream_app.mergetree.changelog.rows_above import RowsAbove
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import take
from stream_app.mergetree.level_windows import LevelWindow
from stream_app.model.data_file_meta import DataFileMeta

_NUMBER = "_NUMBER"


@dataclass(frozen=True, slots=True)
class FirstRowChangelog:
    """Implements `BeforeRows`.

    Attributes:
        above: the keys above the compaction's output; its layout is that of the key columns.
    """

    max_level: int
    above: RowsAbove

    def tells(self, sections: Sequence[Section], output_level: int, /) -> bool:
        """Whether rows leave level 0."""
        return output_level != 0 and leave_level_0(sections)

    def upgrade(self, file: DataFileMeta, output_level: int, /) -> Upgrade:
        """A file of level 0 is rewritten if a key of it may lie above."""
        if file.level != 0:
            return Upgrade.MOVE
        is_new = output_level == self.max_level or not self.above.may_have(file)
        return Upgrade.TELL if is_new else Upgrade.REWRITE

    def before(self, given: LevelWindow) -> WindowBefore:
        """No rows; the window lacks the keys that lie above."""
        batch = given.window.batch
        is_known = given.any(given.levels > 0)
        is_new = ~is_known
        firsts = take(batch, given.order[given.starts[~is_known]])
        keeps = np.ones(len(is_known), np.bool_)
        if firsts.num_rows and self.above.above:
            layout = self.above.layout
            keys = firsts.select(list(layout.key_names)).cast(layout.schema)
            numbers = pa.array(np.flatnonzero(~is_known))
            _, absent = self.above.rows_of(keys.append_column(_NUMBER, numbers))
            keeps = is_known
            keeps[absent.column(_NUMBER).to_numpy()] = True
        window = given.chosen(given.of_keys(keeps))
        return WindowBefore(window, None, is_new[keeps])
