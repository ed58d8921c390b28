"""``changelog-producer = full-compaction``: the changes since the last full compaction.

Only a full compaction writes the highest level. So the rows there are those that followers have
seen, and all rows below have come since.

Source: Paimon `mergetree/compact/FullChangelogMergeTreeCompactRewriter.java`,
`FullChangelogMergeFunctionWrapper.java`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.mergetree.changelog.before_rows import Upgrade, WindowBefore
from stream_app.mergetree.interval_partition import Section
from stream_app.mergetree.key_value_batch import take
from stream_app.mergetree.level_windows import LevelWindow
from stream_app.model.data_file_meta import DataFileMeta


@dataclass(frozen=True, slots=True)
class FullCompactionChangelog:
    """Implements `BeforeRows`."""

    max_level: int

    def tells(self, _sections: Sequence[Section], output_level: int, /) -> bool:
        """Whether it is a full compaction."""
        return output_level == self.max_level

    def upgrade(self, _file: DataFileMeta, output_level: int, /) -> Upgrade:
        """All rows of a file that reaches the highest level are new."""
        return Upgrade.TELL if output_level == self.max_level else Upgrade.MOVE

    def before(self, given: LevelWindow) -> WindowBefore:
        """The rows of the highest level, of keys that have newer rows."""
        is_new = given.levels != self.max_level
        may_change = given.any(is_new)
        chosen = given.of_keys(may_change) & ~is_new
        rows = take(given.window.batch, given.order[chosen])
        return WindowBefore(given.window, rows, may_change)
