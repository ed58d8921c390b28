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
from functools import partial
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
from stream_app.table.compact.strategy_choice import adaptable_rules
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
_FLUSHES_MAX = 16
"""Flushes of a bucket whose median is its usual flush: the large ones of a first load are not."""
_EPOCHS_MIN, _EPOCHS_MAX = 4, 16
"""The minimum and maximum number of epochs from whose flushes the table's need of cores follows."""
DEFAULT_RATE = 61e6
"""The assumed rate at which a compaction writes, until this run of the job has measured one."""
_MEASURED_MIN_S = 1.0
"""The run time of compactions from which on their measured rate counts."""


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
    policy_bounds: PolicyBounds
    _flush_sizes: dict[BucketId, deque[int]] = field(init=False, default_factory=dict)
    _choices: dict[BucketId, PolicyChoice] = field(init=False, default_factory=dict)
    _table_rules: UniversalCompaction | None = field(init=False)
    _epoch_flushes: Counter[SimulatedBucket] = field(init=False, default_factory=Counter)
    _earlier_epochs: deque[tuple[float, Counter[SimulatedBucket]]] = field(
        init=False, default_factory=lambda: deque(maxlen=_EPOCHS_MAX)
    )
    _epoch_end_s: float | None = field(init=False, default=None)
    _written_size: float = field(init=False, default=0.0)
    _written_s: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._table_rules = adaptable_rules(self.table.options)
        if self._table_rules is None:
            _LOG.info(
                "%s: compaction-policy = auto has no effect: its rows wait for compactions, which "
                "its options request after each flush",
                self.table.location,
            )

    def note_epoch(self, changes: Iterable[BucketChange], now_s: float) -> None:
        """Note an epoch's flushes and its end (s, steady clock), and update the budget."""
        for change in changes:
            for file in change.added_files:
                self._note_flush(change.bucket_id, file.file_size)
        if self._epoch_end_s is not None and self._epoch_flushes:
            self._earlier_epochs.append((now_s - self._epoch_end_s, self._epoch_flushes))
            self._epoch_flushes = Counter()
        self._epoch_end_s = now_s
        if self.policy_bounds.budget is not None and len(self._earlier_epochs) >= _EPOCHS_MIN:
            self._note_need(self.policy_bounds.budget)

    def _note_need(self, budget: CoreBudget) -> None:
        """Note in the budget the cores that the flushes of the newest epochs need."""
        total_s = sum(length_s for length_s, _ in self._earlier_epochs)
        if total_s <= 0:
            return
        flushed_sizes = sum(
            (sizes for _, sizes in self._earlier_epochs), Counter[SimulatedBucket]()
        )
        is_measured = self._written_s >= _MEASURED_MIN_S
        rate = self._written_size / self._written_s if is_measured else DEFAULT_RATE
        cores_once = {bucket: size / total_s / rate for bucket, size in flushed_sizes.items()}
        interval_s = total_s / len(self._earlier_epochs)
        budget.note(self.table.location, partial(_cores, cores_once), interval_s)

    def note_compaction(self, change: BucketChange) -> None:
        """Note the bytes that a compaction wrote, and its duration."""
        self._written_size += sum(file.file_size for file in change.written_files)
        self._written_s += change.run_s

    def text_of(self, bucket_id: BucketId) -> str | None:
        """Return a bucket's chosen rules and the reason; None if the table's options apply."""
        choice = self._choices.get(bucket_id)
        budget = self.policy_bounds.budget
        if choice is None:
            return None
        advice = None if budget is None else budget.advice
        return choice.text() if advice is None else f"{choice.text()}; {advice.text()}"

    def fit(self, bucket_id: BucketId, manager: CompactManager) -> None:
        """Apply a bucket's rules to its manager, and choose new ones if its sizes changed."""
        flushes = self._flush_sizes.get(bucket_id)
        table_rules = self._table_rules
        if not flushes or table_rules is None or not isinstance(manager.picker, MergeTreePicker):
            return
        levels = manager.levels
        current_choice = self._choices.get(bucket_id)
        sizes = BucketSizes(
            size=sum(run.total_size for run in levels.level_sorted_runs()),
            flush_size=int(median_low(flushes)),
            level=levels.non_empty_highest_level(),
            num_levels=levels.num_levels,
        )
        if is_due(current_choice, sizes):
            choice = choose_rules(
                sizes, table_rules, self._fixed_rules(), self._stop_trigger(), current_choice
            )
            self._choices[bucket_id] = choice
            if current_choice is None or current_choice.rules != choice.rules:
                bucket_folder = self.table.paths.bucket_folder(*bucket_id)
                _LOG.info("compaction policy of %s: %s", bucket_folder, choice.text())
        choice = self._choices[bucket_id]
        manager.picker.use_strategy(choice.rules)
        manager.set_stop_trigger(choice.stop_trigger)

    def _note_flush(self, bucket_id: BucketId, size: int) -> None:
        self._flush_sizes.setdefault(bucket_id, deque(maxlen=_FLUSHES_MAX)).append(size)
        if (
            self.policy_bounds.budget is not None
            and (choice := self._choices.get(bucket_id)) is not None
        ):
            self._epoch_flushes[choice.simulated_bucket] += size

    def _fixed_rules(self) -> FixedRules:
        return FixedRules(
            fixes_trigger=self._is_set(NUM_SORTED_RUN_COMPACTION_TRIGGER),
            fixes_size_ratio=self._is_set(COMPACTION_SIZE_RATIO),
            fixes_amplification=self._is_set(COMPACTION_MAX_SIZE_AMPLIFICATION_PERCENT),
        )

    def _stop_trigger(self) -> int:
        options = self.table.options
        is_set = self._is_set(NUM_SORTED_RUN_STOP_TRIGGER)
        if is_set or self._is_set(NUM_SORTED_RUN_COMPACTION_TRIGGER):
            return options.stop_trigger
        return max(FRESHNESS_MIN, self.policy_bounds.freshness)

    def _is_set(self, option: Option[Any]) -> bool:
        return any(key in self.table.options.raw for key in (option.key, *option.older_keys))


def _cores(cores_once: Mapping[SimulatedBucket, float], length_factor: int) -> float:
    """Return the cores that compactions need if epochs become longer by a factor.

    Args:
        cores_once: the cores that would write each bucket's flushes once.
    """
    return sum(bucket.rewrites(length_factor) * cores for bucket, cores in cores_once.items())
