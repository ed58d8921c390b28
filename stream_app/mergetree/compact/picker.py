"""The port that picks the next compaction of one bucket, and keeps the state for its decision.

`CompactManager` calls it. `MergeTreePicker` picks sorted runs by a `CompactStrategy`. Tables
without a primary key have another picker (`table.compact.append.bucketed_append`).

Source: Paimon `mergetree/compact/MergeTreeCompactManager.java#triggerCompaction`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from stream_app.mergetree.compact.compact_strategy import CompactStrategy, PickTime
from stream_app.mergetree.compact.universal_compaction import full_compaction_unit
from stream_app.mergetree.levels import Levels
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta


class Picker(Protocol):
    """The decision which files of one bucket the next compaction merges, one unit at a time."""

    @property
    def rewrites_all(self) -> bool:
        """Whether a full compaction rewrites all files."""
        ...

    def pick_unit(
        self, levels: Levels, *, local_time_ms: int, is_full: bool, expects_no_flush: bool
    ) -> CompactUnit | None:
        """Return the unit to begin now; None if nothing is due.

        Args:
            local_time_ms: the local wall clock as if it were UTC, as in files' creation times.
            is_full: whether to pick all files for a full compaction.
            expects_no_flush: whether no flush is expected, so that runs need not wait for others.
        """
        ...

    def note_new_file(self, file: DataFileMeta, /) -> None:
        """Note that a flushed file is committed."""
        ...

    def note_applied_unit(self, levels: Levels, unit: CompactUnit, change: BucketChange, /) -> None:
        """Note that a unit's result is committed; `levels` still lack it."""
        ...

    def note_failed_unit(self, unit: CompactUnit, /) -> None:
        """Note that a unit failed or was dropped; its files may be picked again."""
        ...

    def note_replaced_levels(
        self, old_levels: Levels, new_levels: Levels, begun_unit: CompactUnit | None, /
    ) -> None:
        """Note that another writer changed the bucket."""
        ...


@dataclass(slots=True, kw_only=True)
class MergeTreePicker:
    """A picker of sorted runs by a `CompactStrategy`. Implements `Picker`.

    Attributes:
        make_rewrite_predicate: makes, for each pick, a predicate: whether a full compaction must
            drop rows of a file.
    """

    strategy: CompactStrategy
    rewrites_all: bool = False
    make_rewrite_predicate: Callable[[], Callable[[DataFileMeta], bool]] = lambda: lambda _: False
    _has_flushed: bool = field(default=False, init=False)
    _idle_flush_count: int = field(default=0, init=False)
    _full_start_time_ms: int | None = field(default=None, init=False)
    _begun_time_ms: int = field(default=0, init=False)

    def use_strategy(self, strategy: CompactStrategy) -> None:
        """Pick units by these rules from now on."""
        self.strategy = strategy

    def pick_unit(
        self, levels: Levels, *, local_time_ms: int, is_full: bool, expects_no_flush: bool
    ) -> CompactUnit | None:
        """Pick by the strategy, and count the flushes after which nothing was due."""
        unit = (
            self._full_unit(levels)
            if is_full
            else self._due_unit(levels, local_time_ms, expects_no_flush=expects_no_flush)
        )
        if unit is None:
            self._idle_flush_count += self._has_flushed
        else:
            self._begun_time_ms = local_time_ms
            if unit.is_forced:
                self._idle_flush_count = 0
        self._has_flushed = False
        return unit

    def note_new_file(self, _file: DataFileMeta, /) -> None:
        """Note the flush, which the next pick counts if nothing is due."""
        self._has_flushed = True

    def note_applied_unit(
        self, levels: Levels, unit: CompactUnit, _change: BucketChange, /
    ) -> None:
        """Note the start of a full compaction, from which its age counts."""
        if unit.output_level == levels.max_level:
            self._full_start_time_ms = self._begun_time_ms

    def note_failed_unit(self, _unit: CompactUnit, /) -> None:
        """Do nothing, because each unit is picked from the current levels."""

    def note_replaced_levels(
        self, old_levels: Levels, new_levels: Levels, _begun_unit: CompactUnit | None, /
    ) -> None:
        """Note a flush if another writer has added a file of level 0."""
        old_names = {file.file_name for file in old_levels.all_files()}
        self._has_flushed |= any(
            file.level == 0 and file.file_name not in old_names for file in new_levels.all_files()
        )

    def _due_unit(
        self, levels: Levels, local_time_ms: int, *, expects_no_flush: bool
    ) -> CompactUnit | None:
        last_full_time_ms = self._last_full_time_ms(levels)
        time = PickTime(
            hour=local_time_ms // 3_600_000 % 24,
            full_age_ms=None if last_full_time_ms is None else local_time_ms - last_full_time_ms,
            idle_flush_count=self._idle_flush_count + self._has_flushed,
            expects_no_flush=expects_no_flush,
        )
        unit = self.strategy.pick(levels.num_levels, levels.level_sorted_runs(), time)
        if unit is None or not unit.files:
            return None
        has_effect = len(unit.files) > 1 or unit.files[0].level != unit.output_level
        return unit if has_effect else None

    def _full_unit(self, levels: Levels) -> CompactUnit | None:
        """Return a unit of all files into the highest level; None if they need no compaction."""
        must_rewrite = self.make_rewrite_predicate()
        return full_compaction_unit(
            levels.num_levels,
            levels.level_sorted_runs(),
            lambda file: self.rewrites_all or must_rewrite(file),
        )

    def _last_full_time_ms(self, levels: Levels) -> int | None:
        """Return the time of the bucket's last full compaction, from memory or from its files.

        Files' creation times survive restarts, so the next process continues the count.
        """
        times_ms = [
            run.newest_time_ms
            for run in levels.level_sorted_runs()
            if run.level == levels.max_level and run.newest_time_ms is not None
        ]
        if self._full_start_time_ms is not None:
            times_ms.append(self._full_start_time_ms)
        return max(times_ms, default=None)
