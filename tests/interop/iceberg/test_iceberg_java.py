"""stream_app and Paimon's Java write the same Iceberg metadata, but for the listed fields."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stream_app.table.opening import open_file_store_table
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.iceberg_reader import IcebergError, IcebergReader
from tests.support.judges.iceberg_tree import iceberg_fields
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.catalog_table import VECTORS
from tests.support.tables.small_table import Change, SmallTable, small_table

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
PARTITIONS = ("pt", "pd", "pn")
KEY = (*PARTITIONS, "id")
KINDS: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "append": ((), {}),
    "vectors": (KEY, VECTORS),
    "highest level": (KEY, {}),
}
COLUMNS = (
    "pt STRING NOT NULL, pd DATE NOT NULL, pn DECIMAL(9, 2) NOT NULL, id INT NOT NULL, f DOUBLE, "
    "m DECIMAL(9, 2), s STRING, t TIMESTAMP(6), z TIMESTAMP(6) WITH LOCAL TIME ZONE, k BOOLEAN, "
    "b BYTES, n ARRAY<INT>, e MAP<STRING, INT>, r ROW<x INT, y STRING>"
)

# Fields in which the metadata of stream_app and of Java differ on purpose, and why.
FIELDS_OF_ALL_TABLES = {
    "metadata: last-updated-ms": "a version has the time of its snapshot, Java's has the clock's",
    "snapshot: timestamp-ms": "as last-updated-ms",
    "metadata: last-column-id": "the parts of a ROW have ids too",
    "metadata: properties.gc.enabled": "no engine of Iceberg shall delete Paimon's files",
    "metadata: properties.paimon.visible-from-level": "a change of it is seen at the next commit",
    "metadata: refs.main.snapshot-id": "readers that look for the branch find it",
    "metadata: refs.main.type": "as its snapshot-id",
    "metadata: snapshot-log.snapshot-id": "the history of Iceberg's readers",
    "metadata: snapshot-log.timestamp-ms": "as its snapshot-id",
    "snapshot: summary.added-data-files": "Iceberg's readers show counts",
    "snapshot: summary.added-records": "as added-data-files",
    "snapshot: summary.deleted-data-files": "as added-data-files",
    "snapshot: summary.deleted-records": "as added-data-files",
    "snapshot: summary.total-data-files": "as added-data-files",
    "snapshot: summary.total-delete-files": "as added-data-files",
    "snapshot: summary.total-records": "as added-data-files",
    "snapshot: summary.paimon.snapshot-id": "which snapshot of Paimon it is",
    "snapshot: summary.paimon.delta-manifest-list": "its unique name: a rollback frees numbers",
    "manifest list: header": "the specification wants snapshot-id; and a digest of the bytes",
    "manifest: header": "the specification wants schema, partition spec and content",
    "manifest list: manifest_path": "Java counts the files of a process",
    "manifest list: manifest_length": "the headers differ",
    "manifest: avro.data_file.first_row_id": "of version 3",
    "manifest: avro.data_file.partition.pn": "the specification wants fixed, Java has bytes",
    "file: file_format": "PARQUET, as Iceberg's own writers have it",
    "file: file_size_in_bytes": "another writer of Parquet",
}
MANIFEST_LIST_NAME = {
    "snapshot: manifest-list": "lists have the snapshot's number, Java counts its own"
}
FIELDS_OF_KEYED_TABLES = {
    **MANIFEST_LIST_NAME,
    "metadata: schemas.identifier-field-ids": "the primary key",
    "file: entry.snapshot_id": "Java's first version has a file of level 0 that overlaps no other",
    "file: entry.sequence_number": "as snapshot_id",
    "file: entry.file_sequence_number": "as snapshot_id",
}
ROW_LINEAGE_FIELDS = {
    "metadata: next-row-id": "version 3 wants row lineage",
    "snapshot: first-row-id": "as next-row-id",
    "snapshot: added-rows": "as next-row-id",
    "manifest list: first_row_id": "as next-row-id",
    "file: first_row_id": "as next-row-id",
}
LEVEL_0_FILE_FIELDS = {
    "manifest list: added_snapshot_id": "Java's first version has the file of level 0",
    "manifest list: sequence_number": "as added_snapshot_id",
    "manifest list: min_sequence_number": "as added_snapshot_id",
}
DELETION_VECTOR_FIELDS = {
    "snapshot: summary.operation": "a snapshot with new vectors is not an append",
    "vector: file_path": "PyIceberg and DuckDB want a Puffin file, Java names Paimon's index file",
    "vector: content_offset": "a Puffin file's header is longer by three bytes",
    "vector: file_size_in_bytes": "a Puffin file has a footer",
    "vector: file_format": "PUFFIN, as Iceberg's own writers have it",
}
SHARED_MANIFEST_FIELDS = {
    f"manifest list: {name}": "removed and added files share a manifest, Java writes two"
    for name in (
        "added_files_count", "added_rows_count", "content", "deleted_files_count",
        "deleted_rows_count", "existing_files_count", "existing_rows_count",
        "partition_spec_id", "partitions.contains_nan", "partitions.contains_null",
        "partitions.lower_bound", "partitions.upper_bound",
    )
}  # fmt: skip
# For each kind of table: in all other fields both are the same.
DIFFERENCES_AT_FIRST_COMMIT = {
    "append": FIELDS_OF_ALL_TABLES,
    "vectors": {
        **FIELDS_OF_ALL_TABLES,
        **FIELDS_OF_KEYED_TABLES,
        **ROW_LINEAGE_FIELDS,
        **LEVEL_0_FILE_FIELDS,
    },
    "highest level": {**FIELDS_OF_ALL_TABLES, **FIELDS_OF_KEYED_TABLES, **LEVEL_0_FILE_FIELDS},
}
DIFFERENCES_AT_SECOND_COMMIT = {
    "append": {**FIELDS_OF_ALL_TABLES, **MANIFEST_LIST_NAME},
    "vectors": {**DIFFERENCES_AT_FIRST_COMMIT["vectors"], **DELETION_VECTOR_FIELDS},
    "highest level": {**DIFFERENCES_AT_FIRST_COMMIT["highest level"], **SHARED_MANIFEST_FIELDS},
}


def a_row(number: int, text: str | None = "x") -> dict[str, Any]:
    return {
        "pt": "ab"[number % 2], "pd": dt.date(2024, 1, 2), "pn": Decimal("-7.25"), "id": number,
        "f": number / 2 + 1, "m": Decimal(number) / 4, "s": text if number % 3 else None,
        "t": dt.datetime.fromisoformat("2024-01-02T03:04:05.678901"),
        "z": dt.datetime.fromisoformat("2024-01-02T03:04:05.678901+00:00"),
        "k": bool(number % 2), "b": b"\x01", "n": None, "e": None, "r": None,
    }  # fmt: skip


def changes_of(turn: int, *, has_keys: bool) -> list[Change]:
    """Many rows at first, then few: so a compaction of what is due leaves the large files alone."""
    if turn == 0:
        return [("+I", a_row(number)) for number in range(2000)]
    changed_rows = [("+U", a_row(turn, "new")), ("-D", a_row(100 + turn))]
    return [("+I", a_row(5000 + turn)), *(changed_rows if has_keys else [])]


class Turns:
    """One table, or a table and its copy, that stream_app and Paimon's Java write."""

    def __init__(
        self, folder: Path, kind: str, java: PaimonJava, partitions: Sequence[str] = PARTITIONS
    ) -> None:
        keys, of_kind = KINDS[kind]
        self.keys = [name for name in keys if name in (*partitions, "id")]
        self.is_due = kind == "vectors"
        self.java, self.turn = java, 0
        self.path = folder / "wh" / "shop.db" / "orders"
        options = {"metadata.iceberg.storage": "table-location", **of_kind}
        small_table(self.path, COLUMNS, self.keys, partitions, **options)

    def commit_here(self, changes: Iterable[Change], *, whole: bool) -> None:
        """Commit by stream_app, and compact a table with a key."""
        self.turn += 1
        table = SmallTable(open_file_store_table(str(self.path)), epoch=self.turn)
        table.commit(*changes)
        if self.keys:
            table.committer.compact_fully() if whole else table.compact()

    def commit_by_java(self, path: Path, changes: Iterable[Change], *, whole: bool) -> None:
        """Commit and compact by Paimon's Java."""
        self.turn += 1
        self.java.write(path, changes, identifier=self.turn, options={"write-only": True})
        if self.keys:
            self.java.compact(path, full=whole)


def differences(ours: Path, theirs: Path) -> set[str]:
    """The fields in which the metadata of two tables differs."""
    our_fields, their_fields = iceberg_fields(ours), iceberg_fields(theirs)
    return {
        field
        for field in our_fields.keys() | their_fields.keys()
        if our_fields.get(field) != their_fields.get(field)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_metadata_is_java_s_but_for_named_fields(
    tmp_path: Path, paimon_java: PaimonJava, kind: str
) -> None:
    """Ids, schemas, partition specs, sequence numbers, null counts and bounds are the same."""
    turns = Turns(tmp_path, kind, paimon_java)
    java_path = tmp_path / "java" / "shop.db" / "orders"
    shutil.copytree(turns.path, java_path)
    for turn, expected in enumerate(
        (DIFFERENCES_AT_FIRST_COMMIT[kind], DIFFERENCES_AT_SECOND_COMMIT[kind])
    ):
        changes = changes_of(turn, has_keys=bool(turns.keys))
        whole = turn == 0 or not turns.is_due
        turns.commit_here(changes, whole=whole)
        turns.commit_by_java(java_path, changes, whole=whole)
        assert differences(turns.path, java_path) == expected.keys()


@pytest.mark.parametrize("first", ["java", "ours"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_goes_on_with_the_metadata_of_the_other(
    tmp_path: Path, paimon_java: PaimonJava, iceberg: IcebergReader, kind: str, first: str
) -> None:
    # DuckDB does not read a partition of Java's whose column is a DECIMAL.
    turns = Turns(tmp_path, kind, paimon_java, ("pt", "pd"))
    earlier: set[int] = set()
    of_java: set[int] = set()
    for turn in range(6):
        changes = changes_of(turn, has_keys=bool(turns.keys))
        whole = turn == 0 or not turns.is_due
        is_ours = turn % 4 in ((1, 2) if first == "java" else (0, 3))
        if is_ours:
            turns.commit_here(changes, whole=whole)
        else:
            turns.commit_by_java(turns.path, changes, whole=whole)
        listed_snapshots = iceberg.describe(turns.path / "metadata")["snapshots"]
        assert listed_snapshots[-1] == latest_id_of(turns.path)
        assert set(listed_snapshots) >= earlier
        if is_ours:
            assert of_java.isdisjoint(listed_snapshots)
            earlier |= set(listed_snapshots)
        else:
            of_java |= set(listed_snapshots) - earlier
        if turns.is_due and not is_ours and turn > 0:
            assert_read_by_java_alone(iceberg, turns.path)
        else:
            assert_read(iceberg, turns.path)


def latest_id_of(path: Path) -> int:
    latest = open_file_store_table(str(path)).snapshots.latest()
    assert latest is not None
    return latest.snapshot_id


def assert_read(iceberg: IcebergReader, path: Path) -> None:
    """PyIceberg and DuckDB read our reader's rows."""
    expected = by_content(read_rows(open_file_store_table(str(path))))
    for rows in (iceberg.read(path / "metadata"), iceberg.read_by_duckdb(path / "metadata")):
        assert by_content(normal_rows(rows)) == expected


def assert_read_by_java_alone(iceberg: IcebergReader, path: Path) -> None:
    """Deletion vectors of Paimon's Java are in no Puffin file."""
    for read in (iceberg.read, iceberg.read_by_duckdb):
        with pytest.raises(IcebergError, match=r"PFA1|not a valid Puffin file"):
            read(path / "metadata")
