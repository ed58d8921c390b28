"""Append tables survive midnight, full disks, damaged files and deletes by other writers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CompactionError, StreamAppError
from stream_app.format.deletion_vector import DeletionVector
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.options.compaction_options import WRITE_ONLY
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.deletion_vectors import index_changes, new_index_manifest
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, InjectedError
from tests.support.jobs.compacting_table import CompactFollower, compaction_of
from tests.support.jobs.table_writer import (
    CompactInCaller,
    CompactLater,
    TableWriter,
    by_content,
    read_rows,
)
from tests.support.tables.small_table import Change, small_table, write_changes
from tests.support.tables.snapshot_chain import (
    check_chain,
    files_on_disk,
    files_that_snapshots_name,
)

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, **options: Any) -> FileStoreTable:
    columns = "k INT, v STRING, dt STRING"
    return small_table(folder / "db.db" / "t", columns, (), ("dt",), **options).table


def rows(epoch: int, count: int = 20, dt: str = "a") -> list[Change]:
    return [("+I", {"k": epoch * 1000 + k, "v": str(k), "dt": dt}) for k in range(count)]


def files_by_partition(table: FileStoreTable) -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        name = table.paths.partition_path(entry.partition)
        counts[name] = counts.get(name, 0) + 1
    return counts


def test_follow_compacts_a_partition_that_comes_while_it_works(tmp_path: Path) -> None:
    """Midnight: while a unit of yesterday runs, today's first files come."""
    table = a_table(tmp_path, write_only="true")
    writer = TableWriter(table)
    for epoch in range(5):
        writer.write(rows(epoch, dt="a"))
    job_table = table.with_options({"write-only": "false"})
    executor = CompactInCaller(job_table)
    compact = executor.submit

    def at_midnight(request: CompactRequest) -> Future[BucketChange]:
        if len(executor.requests) == 0:
            for epoch in range(5, 12):
                writer.write(rows(epoch, dt="b"))
        return compact(request)

    executor.submit = at_midnight  # type: ignore[method-assign]
    follower = CompactFollower(table, make_executor=lambda _: executor)
    for _ in range(5):
        follower.step()
    assert files_by_partition(table) == {"dt=a": 1, "dt=b": 1}


def delete(table: FileStoreTable, bucket: BucketId, positions: Mapping[str, list[int]]) -> None:
    """Delete rows of files as Spark's DELETE FROM does: only the deletion vectors change.

    Args:
        positions: a file's name → the positions of its deleted rows.
    """
    latest = table.snapshots.latest()
    assert latest is not None
    index_entries = table.manifests.read_index_manifest(latest.index_manifest)
    vectors = {name: DeletionVector.of_positions(rows) for name, rows in positions.items()}
    changes = index_changes(table, index_entries, bucket, deleted_rows=vectors)
    base = table.manifests.write_list(FileStoreScan(table).manifests(latest))
    delta = table.manifests.write_list([])
    assert table.snapshots.publish(
        replace(
            latest,
            snapshot_id=latest.snapshot_id + 1,
            base_manifest_list=base[0],
            base_manifest_list_size=base[1],
            delta_manifest_list=delta[0],
            delta_manifest_list_size=delta[1],
            index_manifest=new_index_manifest(table, latest, changes),
            commit_user="deleter",
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            commit_kind=CommitKind.OVERWRITE,
            delta_record_count=0,
            properties=None,
        )
    )


def named_index_files(table: FileStoreTable) -> set[str]:
    return {
        entry.index_file.file_name
        for number in table.snapshots.ids()
        for entry in table.manifests.read_index_manifest(
            table.snapshots.snapshot(number).index_manifest
        )
    }


def test_a_compaction_that_rows_were_deleted_under_leaves_no_index_file(tmp_path: Path) -> None:
    """The job compacts two partitions while another writer deletes rows in the second one."""
    table = a_table(tmp_path, deletion_vectors__enabled="true")
    writer = TableWriter(table, CompactLater)
    executor = writer.executor
    assert isinstance(executor, CompactLater)
    for epoch in range(5):
        writer.write([*rows(epoch, dt="a"), *rows(epoch, dt="b")])
    commit = writer.commit
    while commit.coordinator.metrics().unfinished_count < 2:
        commit.commit_idle()
    units = {request.partition: request.unit.files for request, _ in executor.waiting}
    (first, first_files), (second, second_files) = units.items()
    # A later file of the first partition shares the index file with one that is compacted.
    writer.write([("+I", {"k": 1, "v": "x", "dt": "a"}), ("+I", {"k": 1, "v": "x", "dt": "b"})])
    commit.state.follow_and_load(None)
    others = {
        entry.partition: entry.file.file_name
        for entry in FileStoreScan(table).live(table.snapshots.latest())
        if entry.file.row_count == 1
    }
    delete(table, BucketId(first, 0), {first_files[0].file_name: [3], others[first]: [0]})
    executor.run()
    delete(table, BucketId(second, 0), {second_files[0].file_name: [5]})
    # The second is dropped alone; the first has seen its deletions and goes in.
    snapshot = commit.commit_idle()
    assert snapshot is not None
    assert {entry.partition for entry in FileStoreScan(table).delta(snapshot)} == {first}
    index_files = files_on_disk(table, "index-") - files_on_disk(table, "index-manifest")
    assert index_files == named_index_files(table)
    assert files_on_disk(table, "data-") == files_that_snapshots_name(table)


@pytest.mark.parametrize("key", [(), ("k", "dt")], ids=["append", "key"])
@pytest.mark.parametrize("operation", [0, 1])
def test_a_task_that_fails_at_its_end_leaves_no_file(
    tmp_path: Path, operation: int, key: tuple[str, ...]
) -> None:
    """The disk is full when the file is closed, or synced."""
    columns = "k INT, v STRING, dt STRING"
    table = small_table(tmp_path / "db.db" / "t", columns, key, ("dt",)).table
    table = replace(table, file_io=FaultyFileIO(fault=Fault(number=operation)))
    with pytest.raises(InjectedError):
        write_changes(table, rows(0, 15), 0)
    assert files_on_disk(table, "data-") == set()


def test_the_older_key_of_write_only(tmp_path: Path) -> None:
    table = a_table(tmp_path, **{"write.compaction-skip": "true"})
    assert table.options[WRITE_ONLY]
    assert not table.with_options({"write-only": "false"}).options[WRITE_ONLY]


def test_one_bad_file_does_not_condemn_its_neighbours(tmp_path: Path) -> None:
    """A task has four whole small files and a damaged one."""
    table = a_table(tmp_path)
    writer = TableWriter(table)
    writer.write(rows(0))
    [damaged_file] = [e.file for e in FileStoreScan(table).live(table.snapshots.latest())]
    path = Path(table.location, "dt=a", "bucket-0", damaged_file.file_name)
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    for epoch in range(1, 5):
        writer.write(rows(epoch))
        writer.commit.compact_due()
    for epoch in range(5, 9):
        writer.write(rows(epoch))
        writer.commit.compact_due()
    path.write_bytes(content)
    assert by_content(read_rows(table)) == by_content(writer.model.rows())
    check_chain(table)
    assert len(FileStoreScan(table).live(table.snapshots.latest())) <= 5


def test_compact_reports_files_that_could_not_be_compacted(tmp_path: Path) -> None:
    """One of a partition's two units always fails; the other one succeeds in between."""
    table = a_table(tmp_path, write_only="true", compaction__file_num_limit=5)
    writer = TableWriter(table)
    for epoch in range(10):
        writer.write(rows(epoch))
    live = FileStoreScan(table).live(table.snapshots.latest())
    damaged_files = {entry.file.file_name for entry in live[:5]}

    class Damaged(CompactInCaller):
        def submit(self, request: CompactRequest) -> Future[BucketChange]:
            if damaged_files & {file.file_name for file in request.unit.files}:
                future = Future[BucketChange]()
                future.set_exception(OSError("damaged"))
                return future
            return super().submit(request)

    compaction = compaction_of(table, Damaged, full=True)
    with pytest.raises(CompactionError, match="could not be compacted"):
        compaction.run()


def test_a_service_names_no_configuration_that_it_lacks(tmp_path: Path) -> None:
    """Another engine adds a column after `compact --follow` has looked for a newer schema."""
    table = a_table(tmp_path, write_only="true")
    writer = TableWriter(table)
    writer.write(rows(0))
    compaction = CompactFollower(table).compaction
    compaction._load_changed_buckets()
    fields = parse_columns("k INT, v STRING, dt STRING, w INT")
    assert table.schemas.create(
        replace(table.schema, schema_id=1, fields=fields, highest_field_id=3)
    )
    TableWriter(open_file_store_table(table.location, table.clock), user="other").write(
        [("+I", {"k": 1, "v": "x", "dt": "a", "w": 2})]
    )
    with pytest.raises(StreamAppError) as raised:
        compaction._load_changed_buckets()
    assert "start the job again" in raised.value.fix
    assert "table.columns" not in raised.value.fix
