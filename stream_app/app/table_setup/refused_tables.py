"""Decides which source tables a job does not store, and why, by pure functions.

The job's state lists a refused source table once its messages are quarantined, and `status`,
`check`, `doctor` and the web page show it. `refused_tables` omits source tables that have a table
by now, or that the configuration excludes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stream_app.checkpoint.job_state import JobState
from stream_app.model.source.origin import Origin
from stream_app.planning.sync.target_tables import (
    GhostTable,
    LeftOutTable,
    SyncRules,
    decide_target,
)

TABLES_MAX = 1000
"""The maximum number of refused tables that are kept, because messages may hold any number."""


def with_newly_refused(
    refused_reasons: Mapping[Origin, str],
    new_reasons: Mapping[Origin, str],
    stored_origins: Collection[Origin],
) -> Mapping[Origin, str]:
    """Return the refused source tables, with newly quarantined ones added up to a limit.

    Args:
        stored_origins: the source tables that the job stores, which are not refused.
    """
    still_refused = {
        origin: reason for origin, reason in refused_reasons.items() if origin not in stored_origins
    }
    for origin, reason in new_reasons.items():
        if origin not in stored_origins and (
            origin in still_refused or len(still_refused) < TABLES_MAX
        ):
            still_refused[origin] = reason
    return still_refused


def refused_tables(state: JobState, rules: SyncRules) -> dict[Origin, str]:
    """Return source table → reason, for those that the job should store but cannot."""
    targets = state.targets
    return {
        origin: reason
        for origin, reason in sorted(state.refused_tables.items())
        if origin not in targets
        and not isinstance(decide_target(rules, origin, targets), LeftOutTable | GhostTable)
    }
