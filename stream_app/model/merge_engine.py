"""The merge engines, and the traits that planners of reads and compactions need.

How an engine merges stands in `mergetree.merge_engines`.

Source: Paimon `CoreOptions.java` (`MergeEngine`, `needLookup`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTraits:
    """Facts of one merge engine.

    Attributes:
        may_prune_by_value: the merged row is one of the input rows. So a section of runs can be
            left out when no file of it holds a value that passes.
        keeps_deletes: a delete stays a row of kind -D when it is the newest of its key. So readers
            leave it out, and compactions do when nothing older lies below.
        needs_lookup: a compaction looks each row's key up in the files above its output, so that
            no key is on two levels above 0. Readers skip level 0, so each row has to leave it soon.
        keeps_newest: the merged row is the newest one, whatever the older ones are.
    """

    may_prune_by_value: bool
    keeps_deletes: bool
    needs_lookup: bool
    keeps_newest: bool = False


_FOLDING = EngineTraits(may_prune_by_value=False, keeps_deletes=True, needs_lookup=False)
MERGE_ENGINES: Mapping[str, EngineTraits] = {
    "deduplicate": EngineTraits(
        may_prune_by_value=True, keeps_deletes=True, needs_lookup=False, keeps_newest=True
    ),
    "partial-update": _FOLDING,
    "aggregation": _FOLDING,
    "first-row": EngineTraits(may_prune_by_value=True, keeps_deletes=True, needs_lookup=True),
}
"""By the value of ``merge-engine``, in lower case."""


def traits_of(engine: str) -> EngineTraits:
    """The engine's traits; careful ones for an engine that stream_app does not merge by."""
    return MERGE_ENGINES.get(engine, _FOLDING)
