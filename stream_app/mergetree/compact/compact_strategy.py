"""The port that decides which sorted runs of a bucket are merged next.

`picker` calls it, `universal_compaction` implements it, and `strategy_choice` chooses by a table's
options. A strategy is pure: the caller passes the time as a `PickTime`.

Source: Paimon `mergetree/compact/CompactStrategy.java`, `MergeTreeCompactManagerFactory.java`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stream_app.mergetree.sorted_run import LevelSortedRun
from stream_app.model.files.compact_request import CompactUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class PickTime:
    """The facts for rules that depend on time.

    Attributes:
        hour: the local hour of the day, 0 to 23.
        full_age_ms: milliseconds since the bucket's last full compaction; None without one.
        idle_flush_count: flushes without a pick, including the current one, since level 0 was last
            compacted by force.
        expects_no_flush: whether no flush is expected, so that runs need not wait for others.
    """

    hour: int = 12
    full_age_ms: int | None = None
    idle_flush_count: int = 0
    expects_no_flush: bool = False


class CompactStrategy(Protocol):
    """A rule that picks the unit that is due."""

    def pick(
        self, num_levels: int, runs: tuple[LevelSortedRun, ...], time: PickTime
    ) -> CompactUnit | None:
        """Return the next unit; None if nothing is due.

        Args:
            num_levels: the bucket's number of levels, including level 0.
            runs: the sorted runs, newest first.
        """
        ...
