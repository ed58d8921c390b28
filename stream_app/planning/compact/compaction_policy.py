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
"""Sorted runs that begin a compaction; the most that freshness allows is tried too."""
_FEW_FLUSHES = 512
"""The number of flushes from which on only the choice with the most runs can be cheap."""
SIZE_RATIOS = (1, 100, 300, 1000)
"""Tried beside `UniversalCompaction.fits_levels`, which needs no ratio."""
AMPLIFICATIONS = (50, 200)
SPARE_RUNS = 3
"""Flushes that may come during a compaction: as between the triggers of Paimon's defaults."""
FRESHNESS_MIN = 2 + SPARE_RUNS
FLUSHES_MIN, FLUSHES_MAX = 1 << 4, 1 << 15
_NEAR = 1.1
"""If the writes of two choices differ by less than this, the one with fewer runs, or the present
one, wins."""


@dataclass(frozen=True, slots=True)
class FixedRules:
    """The rules that the table's options set, and that the policy does not change."""

    trigger: bool = False
    size_ratio: bool = False
    amplification: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSizes:
    """The sizes of a bucket on which a choice depends.

    Attributes:
        size: the bytes of the bucket.
        flush: the bytes of a usual flush.
        level: the highest level with files.
        num_levels: the number of levels, including level 0.
    """

    size: int
    flush: int
    level: int
    num_levels: int

    @property
    def flushes(self) -> int:
        """The bucket's size in flushes, as a power of two from 16 on."""
        ratio = self.size / max(1, self.flush)
        near: int = 2 ** round(math.log2(max(1.0, ratio)))
        return max(FLUSHES_MIN, min(FLUSHES_MAX, near))


@dataclass(frozen=True, slots=True)
class SimulatedBucket:
    """The rules, levels and size in flushes that define a simulation."""

    rules: UniversalCompaction
    num_levels: int
    flushes: int

    def rewrites(self, longer: int = 1) -> float:
        """Return the bytes that compactions write for each byte of a flush.

        Args:
            longer: the factor by which epochs are longer, and flushes larger.
        """
        flushes = max(FLUSHES_MIN, self.flushes // longer)
        return simulated_cost(self.rules, self.num_levels, flushes).writes - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyChoice:
    """The rules of one bucket, with their reason.

    Attributes:
        stop_trigger: the number of sorted runs beyond which writes wait.
        simulated: the bucket in the simulation.
        writes, writes_before: the bytes written for each byte of a flush, with these rules and with
            the table's.
    """

    rules: UniversalCompaction
    stop_trigger: int
    sizes: BucketSizes
    writes: float
    writes_before: float
    simulated: SimulatedBucket
    fixed: FixedRules = FixedRules()

    def text(self) -> str:
        """Return the choice and its reason in one line."""
        sizes, rules = self.sizes, self.rules
        fixed = [
            name
            for name, is_fixed in (
                ("trigger", self.fixed.trigger),
                ("size ratio", self.fixed.size_ratio),
                ("size amplification", self.fixed.amplification),
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
            f"flushes of {_bytes_text(sizes.flush)}, writes each byte {_times_text(self.writes)} × "
            f"instead of {_times_text(self.writes_before)} ×"
            + (f"; the table's options set the {', the '.join(fixed)}" if fixed else "")
        )


def is_due(choice: PolicyChoice | None, sizes: BucketSizes) -> bool:
    """Return whether to choose again, because the size doubled or halved, or flushes changed by
    half.
    """
    if choice is None:
        return True
    size = max(1, sizes.size) / max(1, choice.sizes.size)
    flush = max(1, sizes.flush) / max(1, choice.sizes.flush)
    return not (0.5 < size < 2 and 2 / 3 < flush < 1.5)


def choose_rules(
    sizes: BucketSizes,
    table: UniversalCompaction,
    fixed: FixedRules,
    stop_trigger: int,
    present: PolicyChoice | None = None,
) -> PolicyChoice:
    """Choose the rules for a bucket.

    Args:
        table: the rules of the table's options.
        stop_trigger: the maximum number of sorted runs for readers, from `FRESHNESS_MIN` on.
        present: the present choice, which stays unless another one writes a tenth less.
    """

    def writes(rules: UniversalCompaction) -> float:
        return simulated_cost(rules, sizes.num_levels, sizes.flushes).writes

    without_early = replace(table, early_full_compaction=None)
    rules = _best_rules(without_early, fixed, stop_trigger, sizes.num_levels, sizes.flushes)
    if present is not None and present.stop_trigger == stop_trigger:
        before = replace(present.rules, early_full_compaction=None)
        if writes(before) <= writes(rules) * _NEAR:
            rules = before
    return PolicyChoice(
        rules=replace(rules, early_full_compaction=table.early_full_compaction),
        stop_trigger=stop_trigger,
        sizes=sizes,
        writes=writes(rules),
        writes_before=writes(without_early),
        simulated=SimulatedBucket(rules, sizes.num_levels, sizes.flushes),
        fixed=fixed,
    )


@cache
def _best_rules(
    table: UniversalCompaction, fixed: FixedRules, stop_trigger: int, num_levels: int, flushes: int
) -> UniversalCompaction:
    costs = [
        (simulated_cost(rules, num_levels, flushes), rules)
        for rules in candidates(table, fixed, stop_trigger, flushes)
    ]
    least = min(cost.writes for cost, _ in costs)
    near_best = [(cost, rules) for cost, rules in costs if cost.writes <= least * _NEAR]
    return min(near_best, key=lambda pair: (pair[0].runs, pair[0].writes))[1]


def candidates(
    table: UniversalCompaction, fixed: FixedRules, stop_trigger: int, flushes: int
) -> list[UniversalCompaction]:
    """Return the candidates for rules; for arguments see `choose_rules`."""
    most = max(2, stop_trigger - SPARE_RUNS)
    lower = TRIGGERS if flushes < _FEW_FLUSHES else ()
    triggers = {trigger for trigger in lower if trigger < most} | {most}
    sizes = (
        [table]
        if fixed.size_ratio or table.off_peak_hours
        else [
            replace(table, fits_levels=True),
            *(replace(table, size_ratio=r) for r in SIZE_RATIOS),
        ]
    )
    rules_tried = [
        replace(rules, run_count_trigger=trigger, max_size_amplification_percent=amplification)
        for rules, trigger, amplification in product(
            sizes,
            (table.run_count_trigger,) if fixed.trigger else sorted(triggers),
            (table.max_size_amplification_percent,) if fixed.amplification else AMPLIFICATIONS,
        )
    ]
    if table.run_count_trigger <= most:
        rules_tried.append(table)
    return rules_tried


@cache
def simulated_cost(rules: UniversalCompaction, num_levels: int, flushes: int) -> SimulatedCost:
    """Return the mean cost of updates and inserts, because sizes do not show which keys are new."""
    costs = [
        simulate(rules, num_levels, flushes, flushes=2 * flushes, updates=updates)
        for updates in (True, False)
    ]
    return SimulatedCost(
        *(sum(facts) / len(costs) for facts in zip(*map(astuple, costs), strict=True))
    )


def _bytes_text(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _times_text(writes: float) -> str:
    return f"{writes:.1f}" if writes < 10 else f"{writes:.0f}"
