"""Adapts the compaction rules of each bucket to its size, for `compaction-policy = "auto"`.

`BucketCoordinator` notes flushes here, and applies the rules before it picks files.
`planning.compact.compaction_policy` decides. A bucket without flushes keeps the rules of the
table's options. The policy changes only which files this job picks, but no file, schema or option.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

from stream_app.mergetree.compact.compact_manager import CompactManager
from stream_app.mergetree.compact.picker import MergeTreePicker
from stream_app.mergetree.compact.universal_compaction import UniversalCompaction
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.options.compaction_options import (
    COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT,
    COMPACTION_SIZE_RATIO,
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
    NUM_SORTED_RUN_STOP_TRIGGER,
)
from stream_app.model.options.option import Option
from stream_app.planning.compact.compaction_policy import (
    FRESHNESS_MIN,
    BucketSizes,
    FixedRules,
    PolicyChoice,
    SimulatedBucket,
    choose_rules,
    is_due,
)
from stream_app.table.compact.core_budget import CoreBudget
from stream_app.table.compact.strategy_choice import compact_strategy
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
_FLUSHES_KEPT = 16
"""Flushes of a bucket whose median is its usual flush: one of a snapshot of the source is not."""
_EPOCHS_MIN, _EPOCHS_KEPT = 4, 16
"""Epochs whose flushes are the table's pace."""
BYTES_A_SECOND = 61e6
"""What a compaction writes, until this run of the job has measured it."""
_MEASURED_S = 1.0


@dataclass(frozen=True, slots=True)
class PolicyBounds:
    """The bounds of the policy's choices.

    Attributes:
        freshness: the number of sorted runs beyond which a bucket's writes wait, unless the table's
            options set it.
        budget: the cores for compactions; None disables the advice about cores.
    """

    freshness: int
    budget: CoreBudget | None = None


@dataclass(slots=True)
class AutoPolicy:
    """The compaction rules that the job chooses for one table's buckets."""

    table: FileStoreTable
    bounds: PolicyBounds
    _flushes: dict[BucketId, deque[int]] = field(init=False, default_factory=dict)
    _choices: dict[BucketId, PolicyChoice] = field(init=False, default_factory=dict)
    _rules: UniversalCompaction | None = field(init=False)
    _epoch: Counter[SimulatedBucket] = field(init=False, default_factory=Counter)
    _epochs: deque[tuple[float, Counter[SimulatedBucket]]] = field(
        init=False, default_factory=lambda: deque(maxlen=_EPOCHS_KEPT)
    )
    _epoch_at: float | None = field(init=False, default=None)
    _written: float = field(init=False, default=0.0)
    _written_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        rules = compact_strategy(self.table.options)
        self._rules = rules if isinstance(rules, UniversalCompaction) else None
        if self._rules is None:
            _LOG.info(
                "%s: compaction-policy = auto has no effect: its rows wait for compactions, which "
                "its options request after each flush",
                self.table.location,
            )

    def note_epoch(self, changes: Iterable[BucketChange], now: float) -> None:
        """Note an epoch's flushes and its end (s, steady clock), and update the budget."""
        for change in changes:
            for file in change.added:
                self._note_flush(change.bucket_id, file.file_size)
        if self._epoch_at is not None and self._epoch:
            self._epochs.append((now - self._epoch_at, self._epoch))
            self._epoch = Counter()
        self._epoch_at = now
        budget, seconds = self.bounds.budget, sum(length for length, _ in self._epochs)
        if budget is None or len(self._epochs) < _EPOCHS_MIN or seconds <= 0:
            return
        flushed = sum((buckets for _, buckets in self._epochs), Counter[SimulatedBucket]())
        is_measured = self._written_s >= _MEASURED_S
        rate = self._written / self._written_s if is_measured else BYTES_A_SECOND
        work = {bucket: size / seconds / rate for bucket, size in flushed.items()}
        interval_s = seconds / len(self._epochs)
        budget.note(self.table.location, lambda longer: _cores(work, longer), interval_s)

    def note_compacted(self, change: BucketChange) -> None:
        """Note the bytes that a compaction wrote, and its duration."""
        self._written += sum(file.file_size for file in change.written)
        self._written_s += change.seconds

    def text_of(self, bucket: BucketId) -> str | None:
        """Return a bucket's chosen rules and the reason; None if the table's options apply."""
        choice, budget = self._choices.get(bucket), self.bounds.budget
        if choice is None:
            return None
        advice = None if budget is None else budget.advice
        return choice.text() if advice is None else f"{choice.text()}; {advice.text()}"

    def fit(self, bucket: BucketId, manager: CompactManager) -> None:
        """Apply a bucket's rules to its manager, and choose new ones if its sizes changed."""
        flushes, rules = self._flushes.get(bucket), self._rules
        if not flushes or rules is None or not isinstance(manager.picker, MergeTreePicker):
            return
        levels, present = manager.levels, self._choices.get(bucket)
        sizes = BucketSizes(
            size=sum(run.run.total_size for run in levels.level_sorted_runs()),
            flush_size=int(median_low(flushes)),
            level=levels.non_empty_highest_level(),
            num_levels=levels.num_levels,
        )
        if is_due(present, sizes):
            choice = choose_rules(sizes, rules, self._fixed_rules(), self._stop_trigger(), present)
            self._choices[bucket] = choice
            if present is None or present.rules != choice.rules:
                where = self.table.paths.bucket(*bucket)
                _LOG.info("compaction policy of %s: %s", where, choice.text())
        choice = self._choices[bucket]
        manager.picker.use_strategy(choice.rules)
        manager.set_stop_trigger(choice.stop_trigger)

    def _note_flush(self, bucket: BucketId, size: int) -> None:
        self._flushes.setdefault(bucket, deque(maxlen=_FLUSHES_KEPT)).append(size)
        if self.bounds.budget is not None and (choice := self._choices.get(bucket)) is not None:
            self._epoch[choice.simulated] += size

    def _fixed_rules(self) -> FixedRules:
        return FixedRules(
            trigger=self._is_set(NUM_SORTED_RUN_COMPACTION_TRIGGER),
            size_ratio=self._is_set(COMPACTION_SIZE_RATIO),
            amplification=self._is_set(COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT),
        )

    def _stop_trigger(self) -> int:
        options = self.table.options
        is_set = self._is_set(NUM_SORTED_RUN_STOP_TRIGGER)
        if is_set or self._is_set(NUM_SORTED_RUN_COMPACTION_TRIGGER):
            return options.stop_trigger
        return max(FRESHNESS_MIN, self.bounds.freshness)

    def _is_set(self, option: Option[Any]) -> bool:
        return any(key in self.table.options.raw for key in (option.key, *option.older_keys))


def _cores(work: Mapping[SimulatedBucket, float], longer: int) -> float:
    return sum(bucket.rewrites(longer) * cores for bucket, cores in work.items())
