"""The merge engines, and the traits that planners of reads and compactions need.

`mergetree.merge_engines` defines how an engine merges.

Source: Paimon `CoreOptions.java` (`MergeEngine`, `needLookup`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace


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
        may_prune_by_value: the merged row is one of the input rows. So a section of runs can be
            left out when no file of it holds a value that passes.
        keeps_deletes: a delete stays a row of kind -D when it is the newest of its key. So readers
            leave it out, and compactions do when no older row lies above.
        needs_lookup: a compaction looks each row's key up in the files above its output, so that
            no key is on two levels above 0. Readers skip level 0, so each row has to leave it soon.
        keeps_newest: the merged row is the newest one, whatever the older ones are.
        keeps_first: the merged row is the one that came first. So no row is replaced.
        fills_columns: a row sets the columns in which it has a value. So none takes back another
            unless rules of the columns say how.
        existing: see `OlderRowRule`.
        default_function: the aggregate function of a column that names none; None: the engine's own
            rule is not a function.
    """

    may_prune_by_value: bool
    keeps_deletes: bool
    needs_lookup: bool
    keeps_newest: bool = False
    keeps_first: bool = False
    fills_columns: bool = False
    existing: OlderRowRule = OlderRowRule.STAYS
    default_function: str | None = None


_FOLDING = EngineTraits(may_prune_by_value=False, keeps_deletes=True, needs_lookup=False)
MERGE_ENGINES: Mapping[str, EngineTraits] = {
    "deduplicate": EngineTraits(
        may_prune_by_value=True,
        keeps_deletes=True,
        needs_lookup=False,
        keeps_newest=True,
        existing=OlderRowRule.MOVES,
    ),
    "partial-update": replace(_FOLDING, fills_columns=True),
    "aggregation": replace(_FOLDING, default_function="last_non_null_value"),
    "first-row": EngineTraits(
        may_prune_by_value=True,
        keeps_deletes=True,
        needs_lookup=True,
        keeps_first=True,
        existing=OlderRowRule.SKIPS,
    ),
}
"""The merge engines by the value of ``merge-engine``, in lower case."""


def traits_of(engine: str) -> EngineTraits:
    """The engine's traits; cautious ones for an engine that stream_app does not implement."""
    return MERGE_ENGINES.get(engine, _FOLDING)
