"""Lists the merge engines, and the traits that planners of reads and compactions need.

`mergetree.merge_engines` defines how an engine merges. `schema.merge.aggregate_function` lists the
functions that aggregate columns.

Source: Paimon `CoreOptions.java` (`MergeEngine`, `needLookup`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace

DEDUPLICATE, PARTIAL_UPDATE = "deduplicate", "partial-update"
AGGREGATION, FIRST_ROW = "aggregation", "first-row"


class OlderRowRule(enum.Enum):
    """The treatment of a row whose key has an older row in another partition.

    Source: Paimon `crosspartition/ExistingProcessor.java`.
    """

    MOVES = "the older row is deleted from its partition"
    STAYS = "the row goes to the partition of the older one"
    SKIPS = "the row is left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """Facts of one merge engine.

    Attributes:
        may_prune_by_value: whether the merged row is one of the input rows. If so, a section can be
            skipped if none of its files has a matching value.
        keeps_deletes: whether a key's newest delete stays as -D. Readers omit it, and compactions
            drop it if no older row exists above.
        needs_lookup: whether a compaction looks up each row's key above its output, so that no key
            is on two levels above 0. Readers skip level 0, so rows must leave it soon.
        keeps_newest: whether the merged row is the newest one, whatever the older ones are.
        keeps_first: whether the merged row is the first one, so that no row is replaced.
        fills_columns: whether a row sets the columns in which it has a value, so that a retraction
            needs rules of the columns.
        older_row_rule: the treatment of a row whose key has an older row in another partition.
        default_function: the aggregate function of a column without ``aggregate-function``; None if
            the engine merges such a column without a function.
    """

    may_prune_by_value: bool
    keeps_deletes: bool
    needs_lookup: bool
    keeps_newest: bool = False
    keeps_first: bool = False
    fills_columns: bool = False
    older_row_rule: OlderRowRule = OlderRowRule.STAYS
    default_function: str | None = None


_FOLDING = EngineTraits(may_prune_by_value=False, keeps_deletes=True, needs_lookup=False)
MERGE_ENGINES: Mapping[str, EngineTraits] = {
    DEDUPLICATE: EngineTraits(
        may_prune_by_value=True,
        keeps_deletes=True,
        needs_lookup=False,
        keeps_newest=True,
        older_row_rule=OlderRowRule.MOVES,
    ),
    PARTIAL_UPDATE: replace(_FOLDING, fills_columns=True),
    AGGREGATION: replace(_FOLDING, default_function="last_non_null_value"),
    FIRST_ROW: EngineTraits(
        may_prune_by_value=True,
        keeps_deletes=True,
        needs_lookup=True,
        keeps_first=True,
        older_row_rule=OlderRowRule.SKIPS,
    ),
}
"""The merge engines by the value of ``merge-engine``, in lower case."""


def traits_of(engine: str) -> EngineTraits:
    """Return the engine's traits; cautious ones for an engine that is not implemented."""
    return MERGE_ENGINES.get(engine, _FOLDING)
