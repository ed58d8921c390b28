"""The port that decides which sorted runs of a bucket are merged next.

`picker` calls it, `universal_compaction` implements it, and `strategy_choice` makes the
one of a table's options. It is pure: the caller passes the time as a `PickTime`.

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
        hour: of the day, 0 to 23, local time.
        full_age_ms: milliseconds since the bucket was last merged whole; None: it never was.
        idle_flushes: flushes after which nothing was picked, since level 0 was last lifted by
            force; the one that asks is counted.
        rests: no flush is expected: runs that wait for later ones are due at once.
    """

    hour: int = 12
    full_age_ms: int | None = None
    idle_flushes: int = 0
    rests: bool = False


class CompactStrategy(Protocol):
    """Picks a unit, or nothing when nothing is due."""

    def pick(
        self, num_levels: int, runs: tuple[LevelSortedRun, ...], time: PickTime
    ) -> CompactUnit | None:
        """The next unit.

        Args:
            num_levels: the number of levels of the bucket, level 0 included.
            runs: newest first.
        """
        ...
