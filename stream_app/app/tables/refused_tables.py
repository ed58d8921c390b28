"""Decides which source tables a job does not store, and why: pure.

The job's state has them once messages of such a table are quarantined; `status`, `check`, `doctor`
and the page show them. Source tables that have a table now, or that the configuration excludes, are
not shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stream_app.model.source.origin import Origin
from stream_app.planning.sync.target_tables import (
    GhostTable,
    LeftOutTable,
    SyncRules,
    decide_target,
)
from stream_app.spark.checkpoint.job_state import JobState

TABLES_MAX = 1000
"""Messages may hold any number of names."""


def with_refused(
    known: Mapping[Origin, str], reasons: Mapping[Origin, str], taken: Collection[Origin]
) -> Mapping[Origin, str]:
    """The refused source tables, with those whose messages were quarantined, up to a limit.

    Args:
        taken: the source tables that have a table: they are not refused.
    """
    kept = {origin: why for origin, why in known.items() if origin not in taken}
    for origin, why in reasons.items():
        if origin not in taken and (origin in kept or len(kept) < TABLES_MAX):
            kept[origin] = why
    return kept


def refused_tables(state: JobState, rules: SyncRules) -> dict[Origin, str]:
    """The source tables that the job should store but cannot: name → reason."""
    taken = state.origins
    return {
        origin: why
        for origin, why in sorted(state.refused.items())
        if origin not in taken
        and not isinstance(decide_target(rules, origin, taken), LeftOutTable | GhostTable)
    }
