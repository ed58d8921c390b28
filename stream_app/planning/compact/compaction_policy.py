"""Chooses the rules by which a bucket is compacted, from its size and the size of its flushes.

`table.compact.auto_policy` calls it. `policy_simulation` simulates each candidate for a bucket's
size in flushes, rounded to a power of two, so similar buckets share a simulation. The choice
depends only on a bucket's history. The policy never changes options that the table sets, or the
number of levels, from which readers derive the highest level.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from functools import cache
from itertools import product

from stream_app.mergetree.compact.universal_compaction import UniversalCompaction
from stream_app.planning.compact.policy_simulation import SimulatedCost, simulate

TRIGGERS = (5, 8, 12)
"""Sorted runs that begin a compaction; the maximum that freshness allows is tried too."""
_MANY_FLUSHES_MIN = 512
"""The number of flushes from which on only the choice with the most runs can be cheap."""
SIZE_RATIOS = (1, 100, 300, 1000)
"""Ratios that are tried beside `UniversalCompaction.fits_levels`, which needs none."""
AMPLIFICATIONS = (50, 200)
SPARE_RUN_COUNT = 3
"""Flushes that may come during a compaction: as between the triggers of Paimon's defaults."""
FRESHNESS_MIN = 2 + SPARE_RUN_COUNT
FLUSHES_MIN, FLUSHES_MAX = 1 << 4, 1 << 15
_TOLERANCE = 1.1
"""The factor within which the writes of two choices count as equal. Then the choice with fewer runs
wins, or the current one."""


@dataclass(frozen=True, slots=True)
class FixedRules:
    """The rules that the table's options set, and that the policy does not change."""

    fixes_trigger: bool = False
    fixes_size_ratio: bool = False
    fixes_amplification: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSizes:
    """The sizes of a bucket on which a choice depends.

    Attributes:
        size: the bytes of the bucket.
        flush_size: the bytes of a usual flush.
        level: the highest level with files.
        num_levels: the number of levels, including level 0.
    """

    size: int
    flush_size: int
    level: int
    num_levels: int

    @property
    def flush_count(self) -> int:
        """The bucket's size in flushes, as a power of two from 16 on."""
        ratio = self.size / max(1, self.flush_size)
        rounded_count: int = 2 ** round(math.log2(max(1.0, ratio)))
        return max(FLUSHES_MIN, min(FLUSHES_MAX, rounded_count))


@dataclass(frozen=True, slots=True)
class SimulatedBucket:
    """The rules, levels and size in flushes that define a simulation."""

    rules: UniversalCompaction
    num_levels: int
    flush_count: int

    def rewrites(self, length_factor: int = 1) -> float:
        """Return the bytes that compactions write for each byte of a flush.

        Args:
            length_factor: the factor by which epochs are longer, and flushes larger.
        """
        flush_count = max(FLUSHES_MIN, self.flush_count // length_factor)
        return simulated_cost(self.rules, self.num_levels, flush_count).write_amplification - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """The rules of one bucket, with their reason.

    Attributes:
        stop_trigger: the number of sorted runs beyond which writes wait.
        simulated_bucket: the bucket in the simulation.
        write_amplification, write_amplification_before: the bytes written for each byte of a flush,
            with these rules and with the table's.
    """

    rules: UniversalCompaction
    stop_trigger: int
    sizes: BucketSizes
    write_amplification: float
    write_amplification_before: float
    simulated_bucket: SimulatedBucket
    fixed_rules: FixedRules = FixedRules()

    def text(self) -> str:
        """Return the choice and its reason in one line."""
        sizes, rules = self.sizes, self.rules
        fixed_names = [
            name
            for name, is_fixed in (
                ("trigger", self.fixed_rules.fixes_trigger),
                ("size ratio", self.fixed_rules.fixes_size_ratio),
                ("size amplification", self.fixed_rules.fixes_amplification),
            )
            if is_fixed
        ]
        size_rule = (
            f"sizes for {sizes.num_levels} levels"
            if rules.fits_levels
            else f"size ratio {rules.size_ratio} %"
        )
        return (
            f"trigger {rules.run_count_trigger}, {size_rule}, "
            f"size amplification {rules.max_size_amplification_percent} %: "
            f"{_bytes_text(sizes.size)} up to level {sizes.level}, "
            f"flushes of {_bytes_text(sizes.flush_size)}, writes each byte "
            f"{_times_text(self.write_amplification)} × instead of "
            f"{_times_text(self.write_amplification_before)} ×"
            + (f"; the table's options set the {', the '.join(fixed_names)}" if fixed_names else "")
        )


def is_due(choice: PolicyChoice | None, sizes: BucketSizes) -> bool:
    """Return whether to choose again.

    That is so if the size doubled or halved, or the flushes changed by half.
    """
    if choice is None:
        return True
    size_ratio = max(1, sizes.size) / max(1, choice.sizes.size)
    flush_ratio = max(1, sizes.flush_size) / max(1, choice.sizes.flush_size)
    return not (0.5 < size_ratio < 2 and 2 / 3 < flush_ratio < 1.5)


def choose_rules(
    sizes: BucketSizes,
    table_rules: UniversalCompaction,
    fixed_rules: FixedRules,
    stop_trigger: int,
    current_choice: PolicyChoice | None = None,
) -> PolicyChoice:
    """Choose the rules for a bucket.

    Args:
        table_rules: the rules of the table's options.
        stop_trigger: the maximum number of sorted runs for readers, from `FRESHNESS_MIN` on.
        current_choice: the current choice, which stays unless another one writes a tenth less.
    """

    def amplification(rules: UniversalCompaction) -> float:
        return simulated_cost(rules, sizes.num_levels, sizes.flush_count).write_amplification

    late_rules = replace(table_rules, early_full_compaction=None)
    rules = _best_rules(late_rules, fixed_rules, stop_trigger, sizes.num_levels, sizes.flush_count)
    if current_choice is not None and current_choice.stop_trigger == stop_trigger:
        current_rules = replace(current_choice.rules, early_full_compaction=None)
        if amplification(current_rules) <= amplification(rules) * _TOLERANCE:
            rules = current_rules
    return PolicyChoice(
        rules=replace(rules, early_full_compaction=table_rules.early_full_compaction),
        stop_trigger=stop_trigger,
        sizes=sizes,
        write_amplification=amplification(rules),
        write_amplification_before=amplification(late_rules),
        simulated_bucket=SimulatedBucket(rules, sizes.num_levels, sizes.flush_count),
        fixed_rules=fixed_rules,
    )


@cache
def _best_rules(
    table_rules: UniversalCompaction,
    fixed_rules: FixedRules,
    stop_trigger: int,
    num_levels: int,
    flush_count: int,
) -> UniversalCompaction:
    costs = [
        (simulated_cost(rules, num_levels, flush_count), rules)
        for rules in candidate_rules(table_rules, fixed_rules, stop_trigger, flush_count)
    ]
    least_writes = min(cost.write_amplification for cost, _ in costs)
    near_best_costs = [
        (cost, rules)
        for cost, rules in costs
        if cost.write_amplification <= least_writes * _TOLERANCE
    ]
    return min(
        near_best_costs, key=lambda pair: (pair[0].mean_run_count, pair[0].write_amplification)
    )[1]


def candidate_rules(
    table_rules: UniversalCompaction, fixed_rules: FixedRules, stop_trigger: int, flush_count: int
) -> list[UniversalCompaction]:
    """Return the candidates for rules; for arguments see `choose_rules`."""
    trigger_max = max(2, stop_trigger - SPARE_RUN_COUNT)
    lower_triggers = TRIGGERS if flush_count < _MANY_FLUSHES_MIN else ()
    triggers = {trigger for trigger in lower_triggers if trigger < trigger_max} | {trigger_max}
    sized_rules = (
        [table_rules]
        if fixed_rules.fixes_size_ratio or table_rules.off_peak_hours
        else [
            replace(table_rules, fits_levels=True),
            *(replace(table_rules, size_ratio=size_ratio) for size_ratio in SIZE_RATIOS),
        ]
    )
    rules_tried = [
        replace(rules, run_count_trigger=trigger, max_size_amplification_percent=amplification)
        for rules, trigger, amplification in product(
            sized_rules,
            (table_rules.run_count_trigger,) if fixed_rules.fixes_trigger else sorted(triggers),
            (table_rules.max_size_amplification_percent,)
            if fixed_rules.fixes_amplification
            else AMPLIFICATIONS,
        )
    ]
    if table_rules.run_count_trigger <= trigger_max:
        rules_tried.append(table_rules)
    return rules_tried


@cache
def simulated_cost(rules: UniversalCompaction, num_levels: int, flush_count: int) -> SimulatedCost:
    """Return the mean cost of updates and inserts, because sizes do not show which keys are new."""
    costs = [
        simulate(rules, num_levels, flush_count, count_max=2 * flush_count, has_updates=updates)
        for updates in (True, False)
    ]
    return SimulatedCost(
        *(sum(values) / len(costs) for values in zip(*map(astuple, costs), strict=True))
    )


def _bytes_text(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _times_text(write_amplification: float) -> str:
    return (
        f"{write_amplification:.1f}" if write_amplification < 10 else f"{write_amplification:.0f}"
    )
