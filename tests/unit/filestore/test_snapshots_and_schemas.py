"""Readers of snapshots, schemas and manifests survive stale hints, and report damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.errors import CorruptFileError, StreamAppError
from stream_app.filestore.versions.snapshot_manager import SnapshotManager
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    """Return a table with three snapshots."""
    small = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    for number in range(3):
        small.commit(("+I", {"k": number, "v": "x" * 50}))
    return small.table


def snapshot_file(table: FileStoreTable, name: str) -> Path:
    return Path(table.location, "snapshot", name)


@pytest.mark.parametrize(
    "hint", [None, b"", b"3\n", b"1", b"2", b"7", b"-1", b"99999999999999999999", b"three", b"\xff"]
)
def test_a_hint_that_lies_is_not_believed(table: FileStoreTable, hint: bytes | None) -> None:
    for name in ("LATEST", "EARLIEST"):
        if hint is None:
            snapshot_file(table, name).unlink()
        else:
            snapshot_file(table, name).write_bytes(hint)
    assert table.snapshots.latest_id() == 3
    snapshot_file(table, "snapshot-1").unlink()
    if hint not in (b"3\n",):  # that one names a snapshot that is there
        assert table.snapshots.earliest_id() == 2


def test_names_of_others_are_passed_over(table: FileStoreTable) -> None:
    for name in (
        ".snapshot-9.x.tmp", "snapshot-9.tmp", "snapshot-", "snapshot-x", "snapshot--9",
        "snapshot-٩", "snapshot-9 ", "xsnapshot-9", "README",
    ):  # fmt: skip
        snapshot_file(table, name).write_bytes(b"?")
    snapshot_file(table, "LATEST").unlink()
    assert table.snapshots.ids() == [1, 2, 3]
    assert table.snapshots.latest_id() == 3
    Path(table.location, "schema", "schema-7.tmp").write_bytes(b"?")
    assert table.schemas.ids() == [0]


def test_a_missing_folder_has_no_snapshots(tmp_path: Path) -> None:
    manager = SnapshotManager(open_empty(tmp_path).file_io, str(tmp_path / "none"))
    assert (manager.latest_id(), manager.earliest_id(), manager.latest()) == (None, None, None)
    assert list(manager.backwards()) == []


def open_empty(folder: Path) -> FileStoreTable:
    return small_table(folder / "db.db" / "t", "k INT, v STRING", ("k",)).table


def test_backwards_ends_where_snapshots_have_expired(table: FileStoreTable) -> None:
    snapshot_file(table, "snapshot-1").unlink()
    assert [snapshot.snapshot_id for snapshot in table.snapshots.backwards()] == [3, 2]
    assert [snapshot.snapshot_id for snapshot in table.snapshots.backwards(down_to=3)] == [3]
    assert [snapshot.snapshot_id for snapshot in table.snapshots.backwards(start=2)] == [2]


def test_publishing_takes_a_number_once(table: FileStoreTable) -> None:
    latest = table.snapshots.latest()
    assert latest is not None
    assert not table.snapshots.publish(replace(latest, commit_user="late"))
    assert table.snapshots.latest() == latest
    assert table.snapshots.publish(replace(latest, snapshot_id=4))
    assert table.snapshots.hints() == (3, 1)
    assert table.snapshots.latest_id() == 4
    table.snapshots.write_hint_and_reread(4)
    assert table.snapshots.hints() == (4, 1)


def test_a_hint_that_is_written_late_names_what_is_there(table: FileStoreTable) -> None:
    snapshot_file(table, "snapshot-1").unlink()
    snapshot_file(table, "snapshot-2").unlink()
    table.snapshots.write_hint_and_reread(2)
    assert table.snapshots.hints() == (3, 1)


def test_a_snapshot_without_hints_is_published_all_the_same(table: FileStoreTable) -> None:
    latest = table.snapshots.latest()
    assert latest is not None
    for name in ("LATEST", "EARLIEST"):
        snapshot_file(table, name).unlink()
        snapshot_file(table, name).mkdir()
        (snapshot_file(table, name) / "in the way").touch()
    assert table.snapshots.publish(replace(latest, snapshot_id=4))
    table.snapshots.write_hint_and_reread(4)
    assert table.snapshots.latest_id() == 4


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    match how:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(data[:-9])
        case "longer":
            path.write_bytes(data + b"\0")
        case _:
            path.write_bytes(b"?" * len(data))


def read_all(table: FileStoreTable, latest: Snapshot) -> None:
    for _ in MergeRead(table).read(latest):
        pass


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "longer", "other bytes"])
@pytest.mark.parametrize("kind", ["base list", "delta list", "manifest", "data file"])
def test_damage_is_an_error_with_what_where_and_how_to_mend_it(
    table: FileStoreTable, kind: str, how: str
) -> None:
    latest = table.snapshots.latest()
    assert latest is not None
    path = Path(
        {
            "base list": table.paths.manifest(latest.base_manifest_list),
            "delta list": table.paths.manifest(latest.delta_manifest_list),
            "manifest": table.paths.manifest(FileStoreScan(table).manifests(latest)[0].file_name),
            "data file": str(next(Path(table.location).glob("bucket-0/*"))),
        }[kind]
    )
    damage(path, how)
    with pytest.raises(CorruptFileError) as raised:
        read_all(table, latest)
    assert raised.value.where == str(path)
    assert raised.value.fix
    assert (
        "bytes" in raised.value.problem
        or "missing" in raised.value.problem
        or "not" in raised.value.problem
    )


@pytest.mark.parametrize("how", ["empty", "cut", "other bytes"])
def test_damaged_snapshots_and_schemas_name_their_file(table: FileStoreTable, how: str) -> None:
    path = snapshot_file(table, "snapshot-3")
    damage(path, how)
    with pytest.raises(CorruptFileError) as raised:
        table.snapshots.latest()
    assert raised.value.where == str(path)
    path = Path(table.location, "schema", "schema-0")
    damage(path, how)
    with pytest.raises(StreamAppError) as schema_error:
        open_file_store_table(table.location)
    assert schema_error.value.where == str(path)


def test_a_snapshot_under_anothers_name_is_refused(table: FileStoreTable) -> None:
    snapshot_file(table, "snapshot-3").write_bytes(snapshot_file(table, "snapshot-2").read_bytes())
    with pytest.raises(CorruptFileError, match="the file of snapshot 3 holds snapshot 2"):
        table.snapshots.latest()


def test_a_manifest_that_was_cut_between_two_blocks_is_refused(table: FileStoreTable) -> None:
    """An Avro reader would take it for a whole one, and miss files."""
    latest = table.snapshots.latest()
    assert latest is not None
    path = Path(table.paths.manifest(latest.base_manifest_list))
    header = table.manifests.write_list([])[0]
    path.write_bytes(Path(table.paths.manifest(header)).read_bytes())
    assert table.manifests.read_list(latest.base_manifest_list) == []
    with pytest.raises(CorruptFileError, match="but the file that names it says"):
        read_all(table, latest)
