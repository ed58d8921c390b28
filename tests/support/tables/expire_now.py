"""Expires a table's old versions at once, as the verb and the job do."""

from __future__ import annotations

from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots


def expire(table: FileStoreTable, **config: int) -> int:
    """Expire snapshots and long-lived changelogs; return how many versions."""
    chosen = expire_config(table.options, **config)
    snapshots, changelogs = ExpireSnapshots(table), ExpireChangelogs(table)
    plan = snapshots.plan(chosen)
    snapshots.execute(plan)
    changelogs.execute(changelogs.plan(chosen))
    return len(plan.versions)
