"""Readers get the long-lived changelogs of a table whose changelog-producer was changed.

A follower takes the table's current producer for all of its snapshots, as Paimon does. So the
flushed files of a time without changelog files are no changelog when the table writes such files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.orphan_files import plan_orphans
from tests.support.histories.version_history import History, a_history
from tests.support.tables.expire_now import expire
from tests.support.tables.small_table import SteppingClock
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")
KINDS = {"none": "changes kept", "input": "changelog files kept"}
FAR_MS = 10**15


def change_producer(history: History, producer: str) -> None:
    """The table's owner alters the option, and the job starts again."""
    table = history.table
    options = {**table.schema.options, "changelog-producer": producer}
    schema = replace(table.schema, schema_id=table.schema.schema_id + 1, options=options)
    assert table.schemas.create(schema)
    history.writer.table = replace(table, schema=schema, clock=SteppingClock())
    history.writer.restart()


def epochs(history: History, count: int) -> None:
    for _ in range(count):
        history.writer.write(history.changes.epoch(6))
        history.writer.commit.compact_due()


def followed(table: FileStoreTable) -> set[int]:
    """Snapshots with changes for a follower that begins at the earliest version."""
    first = table.changelogs.ids()[0]
    return {batch.snapshot_id for batch in PaimonTable(table).changelog(snapshot=first)}


@pytest.mark.parametrize(("before", "after"), [("none", "input"), ("input", "none")])
def test_nothing_that_is_followed_goes_and_nothing_is_left_over(
    tmp_path: Path, before: str, after: str
) -> None:
    history = a_history(tmp_path, KINDS[before], 7)
    epochs(history, 4)
    expire(history.table, num_max=2, num_min=2)
    assert history.table.changelogs.ids()
    epochs(history, 2)
    change_producer(history, after)
    table, last = history.table, history.table.snapshots.latest_id() or 0
    for _ in range(3):
        epochs(history, 2)
        expire(table, num_max=2, num_min=2)
        assert findings_of(table) == []
        if after == "input":
            assert {number for number in followed(table) if number > last}
            assert not {number for number in followed(table) if number <= last}
    short = {**table.schema.options}
    for key in [key for key in short if key.startswith("changelog.")]:
        del short[key]
    table = replace(table, schema=replace(table.schema, options=short))
    expire(table, num_max=1, num_min=1)
    assert table.changelogs.ids() == []
    assert [file.name for file in plan_orphans(table, FAR_MS).files] == []
