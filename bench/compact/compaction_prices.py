"""Computes whether prices, reads or file sizes would change the rules that a job chooses.

    python -m bench.compact.compaction_prices

The job chooses rules by the bytes that compactions write. Here each candidate also costs money: a
core's time for rewriting, the requests of flushes, compactions and readers, and a reader's time for
each run. Buckets are simulated as the job does. A line compares the job's choice with the cheapest
of all rules, over buckets of many sizes. ADR 49 draws the conclusions.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from stream_app.mergetree.compact.universal_compaction import UniversalCompaction
from stream_app.planning.compact.compaction_policy import (
    BucketSizes,
    FixedRules,
    candidate_rules,
    choose_rules,
    simulated_cost,
)
from stream_app.planning.compact.policy_simulation import SimulatedCost

MB = 10**6
CORE_SECOND = 0.05 / 3600
"""The dollars of a core second, on a general machine on demand."""
REWRITTEN_A_SECOND = 61 * MB
OPEN_S = 0.01
"""A core's seconds for one more run that a reader merges: one key of five runs takes 0.053 s."""
PART_MB, READ_MB = 8.4, 1.0
"""The megabytes of a request of the job's client for S3, for a write and for a read."""
FLUSHES_MB = (0.4, 1.0, 10.0, 100.0)
SIZES = (16, 64, 256, 1024, 16384)
LEVELS = (6, 21)
LARGEST_MB = 200_000
READS = (0.0, 0.1, 1.0, 10.0)
"""The number of reads of the whole bucket for each flush."""
FRESHNESS = (8, 11, 15, 20)
TARGETS_MB = (16, 128, 1024)


@dataclass(frozen=True)
class Store:
    """The prices of a store, in dollars for each request."""

    name: str
    put: float
    get: float


STORES = (Store("S3, GCS", 5e-6, 0.4e-6), Store("local disk", 0.0, 0.0))
"""Both stores publish 5 and 0.4 dollars a million, Standard class in the United States,
2026-11. Bytes within a region are free."""


@dataclass(frozen=True)
class Bucket:
    """A bucket whose size is a number of flushes."""

    flush_mb: float
    flushes: int
    num_levels: int

    def choice(self, freshness: int) -> SimulatedCost:
        """Return the cost of the job's choice."""
        sizes = BucketSizes(
            size=round(self.flush_mb * MB) * self.flushes,
            flush_size=round(self.flush_mb * MB),
            level=self.num_levels - 1,
            num_levels=self.num_levels,
        )
        return self.cost(choose_rules(sizes, UniversalCompaction(), FixedRules(), freshness).rules)

    def cost(self, rules: UniversalCompaction) -> SimulatedCost:
        """Return the cost of some rules."""
        return simulated_cost(rules, self.num_levels, self.flushes)

    def all_costs(self) -> Iterator[SimulatedCost]:
        """Yield the costs of all candidates for each freshness."""
        for freshness in FRESHNESS:
            for rules in candidate_rules(
                UniversalCompaction(), FixedRules(), freshness, self.flushes
            ):
                yield self.cost(rules)

    def dollars(
        self, cost: SimulatedCost, store: Store, reads: float, target_mb: float = 128.0
    ) -> float:
        """Return the dollars for each flush."""
        rewritten_mb = (cost.write_amplification - 1) * self.flush_mb
        # Assume a bucket between one of updates and one that grows threefold.
        size_mb = 2 * self.flush_mb * self.flushes
        puts = _puts(1, self.flush_mb, target_mb) + _puts(
            cost.compactions_per_flush, rewritten_mb, target_mb
        )
        gets = _gets(1 + cost.compactions_per_flush, self.flush_mb + rewritten_mb, target_mb)
        read_dollars = (
            _gets(cost.mean_run_count, size_mb, target_mb) * store.get
            + cost.mean_run_count * OPEN_S * CORE_SECOND
        )
        return (
            rewritten_mb * MB / REWRITTEN_A_SECOND * CORE_SECOND
            + puts * store.put
            + gets * store.get
            + reads * read_dollars
        )


def _puts(runs: float, size_mb: float, target_mb: float) -> float:
    """Return the requests that write runs. A file of several parts has two more requests."""
    files = runs + size_mb / target_mb
    return files if size_mb <= runs * PART_MB else size_mb / PART_MB + 2 * files


def _gets(runs: float, size_mb: float, target_mb: float) -> float:
    """Return the requests that read runs: one for each footer, and one for each megabyte."""
    return runs + size_mb / target_mb + max(runs, size_mb / READ_MB)


BUCKETS = tuple(
    Bucket(*shape)
    for shape in product(FLUSHES_MB, SIZES, LEVELS)
    if shape[0] * shape[1] <= LARGEST_MB
)


def lines() -> Iterator[str]:
    yield f"| store | reads a flush | least writes |{''.join(f' {f} |' for f in FRESHNESS)} best |"
    yield f"| --- | ---: |{' ---: |' * (len(FRESHNESS) + 2)}"
    for store, reads in product(STORES, READS):
        ratios: list[list[float]] = []
        for bucket in BUCKETS:
            costs = list(bucket.all_costs())
            lowest = min(bucket.dollars(cost, store, reads) for cost in costs)
            chosen_costs = [
                min(costs, key=lambda cost: cost.write_amplification),
                *(bucket.choice(freshness) for freshness in FRESHNESS),
            ]
            dollars = [bucket.dollars(cost, store, reads) for cost in chosen_costs]
            ratios.append([price / lowest for price in (*dollars, min(dollars[1:]))])
        cells = (
            f"{statistics.mean(shares):.2f}, {max(shares):.2f}"
            for shares in zip(*ratios, strict=True)
        )
        yield f"| {store.name} | {reads:g} | {' | '.join(cells)} |"
    for target in TARGETS_MB:
        target_ratios = [
            bucket.dollars(cost, STORES[0], 0.1, target) / bucket.dollars(cost, STORES[0], 0.1)
            for bucket in BUCKETS
            for cost in [bucket.choice(20)]
        ]
        yield (
            f"files of {target} MB cost {statistics.mean(target_ratios):.2f} × those of 128 MB, "
            f"{min(target_ratios):.2f} to {max(target_ratios):.2f}"
        )


def main() -> None:
    for line in lines():
        print(line, flush=True)


if __name__ == "__main__":
    main()
