"""Random epochs of whole tables give the rows, changes and snapshots that a dict predicts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.model.snapshot import CommitKind
from stream_app.table.file_store_table import FileStoreTable
from tests.support.histories.random_changes import RandomChanges
from tests.support.histories.random_shapes import SHAPES, Shape, a_table
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactInThreads,
    TableWriter,
    assert_table_is,
)
from tests.support.tables.snapshot_chain import (
    check_chain,
    files_on_disk,
    files_that_snapshots_name,
)

pytestmark = pytest.mark.usefixtures("unsynced")


def changes_of(table: FileStoreTable, shape: Shape, seed: int) -> RandomChanges:
    return RandomChanges(table.schema, random.Random(seed), deletes=shape.deletes)


@pytest.mark.parametrize("name", SHAPES)
def test_a_table_holds_what_was_written(tmp_path: Path, seed: int, name: str) -> None:
    shape = SHAPES[name]
    threads = name in ("changelog", "partitions", "many small files", "wait for compaction")
    writer = TableWriter(a_table(tmp_path, shape), CompactInThreads if threads else CompactInCaller)
    changes = changes_of(writer.table, shape, seed)
    for number in range(shape.epochs):
        writer.write(changes.epoch(0 if number == 5 else shape.rows))
        if number == 5:
            writer.commit.commit_idle()
            assert_table_is(writer)
        if number % 5 == 4:
            writer.commit.compact_due()
            writer.restart()
    writer.commit.compact_due()
    assert_table_is(writer)
    assert files_on_disk(writer.table, "data-") | files_on_disk(writer.table, "changelog-") == (
        files_that_snapshots_name(writer.table)
    ), "nothing but what snapshots name"
    compactions = [
        snapshot
        for snapshot in check_chain(writer.table)
        if snapshot.commit_kind is CommitKind.COMPACT
    ]
    assert bool(compactions) is (name != "write-only")
    assert SchemaManager(writer.table.file_io, writer.table.location).ids() == [0]
