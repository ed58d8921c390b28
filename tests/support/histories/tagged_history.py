"""Makes histories of a table with tags and rollbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from stream_app.table.upkeep.rollback import plan_rollback, roll_back, rollback_target
from stream_app.table.upkeep.tags import create_tag, delete_tags, new_tag, plan_tag_deletion
from stream_app.table.versions.time_travel import Version
from tests.support.histories.version_history import History, a_history
from tests.support.tables.expire_now import expire

FAR_MS = 10**15


def remove_orphans(table: FileStoreTable, bound_time_ms: int = FAR_MS) -> list[str]:
    plan = plan_orphans(table, bound_time_ms)
    delete_orphans(table, plan)
    return [file.name for file in plan.files]


def add_tag(table: FileStoreTable, name: str, number: int | None = None) -> None:
    assert create_tag(table, new_tag(table, name, number))


def drop_tags(table: FileStoreTable, *names: str) -> None:
    delete_tags(table, plan_tag_deletion(table, names))


def roll_back_to(table: FileStoreTable, *, force: bool = False, **version: Any) -> None:
    target = rollback_target(table, Version(**version))
    roll_back(table, plan_rollback(table, target), resets_consumers=force)


def tag_or_not(history: History) -> None:
    table, rng = history.table, history.rng
    number = rng.choice(table.snapshots.ids())
    names = table.tags.names()
    if f"t{number}" not in names and rng.random() < 0.6:
        add_tag(table, f"t{number}", number)
        history.rows[f"t{number}"] = history.rows[str(number)]
    elif names:
        drop_tags(table, *rng.sample(names, rng.randrange(1, len(names) + 1)))


def with_tags(folder: Path) -> History:
    """Make nine versions, of which two are left, and tags on the second, fourth and eighth."""
    history = a_history(folder, "changelog files", 5)
    for _ in range(9):
        history.step()
    history.settle()
    latest = history.table.snapshots.latest_id()
    assert latest is not None
    for number in (2, 4, latest - 1):
        add_tag(history.table, f"t{number}", number)
    expire(history.table, num_max=2, num_min=2)
    history.remember()
    return history
