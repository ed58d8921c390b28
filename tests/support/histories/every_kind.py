"""Every combination of kind, engine and changelog that a table may have."""

from __future__ import annotations

import itertools

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row")
PRODUCERS = ("none", "input", "lookup", "full-compaction")
BUCKETS = ("2", "-1", "-2")
EVERY_KIND = list(itertools.product(ENGINES, PRODUCERS, BUCKETS, ("false", "true")))
ALWAYS_REFUSED = {
    *((engine, "full-compaction", "true") for engine in ENGINES),  # by Paimon as well
    *(("first-row", producer, "true") for producer in PRODUCERS),
    *(("first-row", producer, "false") for producer in ("input", "full-compaction")),
}


def options_of(kind: tuple[str, str, str, str]) -> dict[str, str]:
    engine, producer, bucket, vectors = kind
    options = {"changelog-producer": producer, "bucket": bucket}
    if engine != "deduplicate":
        options["merge-engine"] = engine
    if vectors == "true":
        options["deletion-vectors.enabled"] = "true"
    if bucket == "2":
        options["num-sorted-run.compaction-trigger"] = "2"
    return options
