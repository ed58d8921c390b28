"""Whether prices of a store, reads or the size of files would change the rules of compactions.

    python -m bench.compact.compaction_prices

The job chooses rules by the bytes that compactions write. Here each candidate also costs money: the
core's time to rewrite, requests of flushes, of compactions and of readers, and a reader's time for
each run. Buckets are simulated as the job does it. A line compares the job's choice with the
cheapest of all rules, over buckets of many sizes. ADR 49 has what follows.
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
"""Dollars: a core of a general machine, on demand."""
REWRITTEN_A_SECOND = 61 * MB
OPEN_S = 0.01
"""A core's time for one more run that a reader merges: one key of five runs takes 0.053 s."""
PART_MB, READ_MB = 8.4, 1.0
"""Bytes of a request of the job's client for S3."""
FLUSHES_MB = (0.4, 1.0, 10.0, 100.0)
SIZES = (16, 64, 256, 1024, 16384)
LEVELS = (6, 21)
LARGEST_MB = 200_000
READS = (0.0, 0.1, 1.0, 10.0)
"""Times that readers read the whole bucket, for each flush."""
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
        """The cost of the job's choice."""
        sizes = BucketSizes(
            size=round(self.flush_mb * MB) * self.flushes,
            flush_size=round(self.flush_mb * MB),
            level=self.num_levels - 1,
            num_levels=self.num_levels,
        )
        return self.cost(choose_rules(sizes, UniversalCompaction(), FixedRules(), freshness).rules)

    def cost(self, rules: UniversalCompaction) -> SimulatedCost:
        """The cost of some rules."""
        return simulated_cost(rules, self.num_levels, self.flushes)

    def all_costs(self) -> Iterator[SimulatedCost]:
        """The costs of all candidates within each freshness."""
        for freshness in FRESHNESS:
            for rules in candidate_rules(
                UniversalCompaction(), FixedRules(), freshness, self.flushes
            ):
                yield self.cost(rules)

    def dollars(
        self, cost: SimulatedCost, store: Store, reads: float, target_mb: float = 128.0
    ) -> float:
        """Dollars for each flush."""
        rewritten = (cost.writes - 1) * self.flush_mb
        # The bucket is taken to be between one of updates and one that grows threefold.
        size = 2 * self.flush_mb * self.flushes
        puts = _puts(1, self.flush_mb, target_mb) + _puts(cost.compactions, rewritten, target_mb)
        gets = _gets(1 + cost.compactions, self.flush_mb + rewritten, target_mb)
        reading = _gets(cost.runs, size, target_mb) * store.get + cost.runs * OPEN_S * CORE_SECOND
        return (
            rewritten * MB / REWRITTEN_A_SECOND * CORE_SECOND
            + puts * store.put
            + gets * store.get
            + reads * reading
        )


def _puts(runs: float, mb: float, target_mb: float) -> float:
    """Requests that write runs: a file of several parts has two more, its begin and its end."""
    files = runs + mb / target_mb
    return files if mb <= runs * PART_MB else mb / PART_MB + 2 * files


def _gets(runs: float, mb: float, target_mb: float) -> float:
    """Requests that read runs: the footer of each file, and then a megabyte each."""
    return runs + mb / target_mb + max(runs, mb / READ_MB)


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
            least = min(bucket.dollars(cost, store, reads) for cost in costs)
            chosen = [
                min(costs, key=lambda cost: cost.writes),
                *(bucket.choice(freshness) for freshness in FRESHNESS),
            ]
            dollars = [bucket.dollars(cost, store, reads) for cost in chosen]
            ratios.append([price / least for price in (*dollars, min(dollars[1:]))])
        cells = (
            f"{statistics.mean(shares):.2f}, {max(shares):.2f}"
            for shares in zip(*ratios, strict=True)
        )
        yield f"| {store.name} | {reads:g} | {' | '.join(cells)} |"
    for target in TARGETS_MB:
        more = [
            bucket.dollars(cost, STORES[0], 0.1, target) / bucket.dollars(cost, STORES[0], 0.1)
            for bucket in BUCKETS
            for cost in [bucket.choice(20)]
        ]
        yield (
            f"files of {target} MB cost {statistics.mean(more):.2f} × those of 128 MB, "
            f"{min(more):.2f} to {max(more):.2f}"
        )


def main() -> None:
    for line in lines():
        print(line, flush=True)


if __name__ == "__main__":
    main()
