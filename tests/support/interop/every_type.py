"""Tables with a column of every type, and their metadata beside Java's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, by_content
from tests.support.judges.normal_rows import Row, normal_value
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock, write_changes

EVERY_TYPE = (
    "v1 BOOLEAN, v2 TINYINT, v3 SMALLINT, v4 INT, v5 BIGINT, v6 DECIMAL(9,2), v7 DECIMAL(18,0), "
    "v8 DECIMAL(38,10), v9 CHAR(3), v10 VARCHAR(20), v11 STRING, v12 BINARY(4), v13 VARBINARY(9), "
    "v14 BYTES, v15 DATE, v16 TIME(3), v17 TIMESTAMP(0), v18 TIMESTAMP(3), v19 TIMESTAMP(6), "
    "v21 TIMESTAMP(3) WITH LOCAL TIME ZONE, v22 TIMESTAMP(6) WITH LOCAL TIME ZONE, "
    "v23 FLOAT, v24 DOUBLE"
)
NANOSECONDS = "n1 TIMESTAMP(9), n2 TIMESTAMP(7) WITH LOCAL TIME ZONE"
KEYS = (
    "k1 BOOLEAN, k2 TINYINT, k3 SMALLINT, k4 INT, k5 BIGINT, k6 DECIMAL(9,2), k8 DECIMAL(38,10), "
    "k11 STRING, k14 BYTES, k15 DATE, k16 TIME(3), k18 TIMESTAMP(3), k19 TIMESTAMP(6), "
    "k21 TIMESTAMP(3) WITH LOCAL TIME ZONE"
)
KEY_NAMES = tuple(column.split()[0] for column in KEYS.split(", "))
INPUT = {"changelog-producer": "input"}
LOW = {"num-sorted-run.compaction-trigger": "2"}
TABLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...], dict[str, str]]] = {
    "every type": (f"k INT, {EVERY_TYPE}", ("k",), (), {**INPUT, **LOW}),
    "nanoseconds": (
        "k INT, v17 TIMESTAMP(0), v18 TIMESTAMP(3), v19 TIMESTAMP(6), v20 TIMESTAMP_LTZ(0), "
        f"v21 TIMESTAMP_LTZ(3), v22 TIMESTAMP_LTZ(6), {NANOSECONDS}", ("k",), (), {**INPUT, **LOW},
    ),
    "every key type": (f"{KEYS}, a INT", KEY_NAMES, (), {**INPUT, **LOW}),
    "partitions": (
        "a INT, dt STRING, d DATE, k BIGINT, b STRING", ("d", "k", "dt"), ("dt", "d"), INPUT,
    ),
    "level 0 alone": (f"k STRING, {EVERY_TYPE}", ("k",), (), {"write-only": "true"}),
    "no changelog": (f"k STRING, {EVERY_TYPE}", ("k",), (), LOW),
    "thin": (
        "a INT, k STRING, j INT", ("j", "k"), (), {"data-file.thin-mode": "true", **LOW},
    ),
    "sequence field": ("k INT, ts BIGINT, a STRING", ("k",), (), {"sequence.field": "ts", **LOW}),
    "small files": (
        "k INT, a STRING, b STRING, c BYTES", ("k",), (),
        {"bucket": "1", "target-file-size": "4 kb", "write-buffer-size": "1 mb", **INPUT, **LOW},
    ),
    "row by row": (
        "k INT, a STRING", ("k",), (),
        {"manifest.compression": "null", "file.compression": "none", "num-levels": "2"},
    ),
}  # fmt: skip


def a_table(
    folder: Path,
    columns: str,
    keys: Sequence[str],
    partitions: Sequence[str] = (),
    **options: str,
) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=tuple(keys),
        partition_keys=tuple(partitions),
        options={"bucket": "2", **options},
        time_ms=TIME_MS,
    )
    return create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock())


def assert_metadata_agrees(paimon_java: PaimonJava, table: FileStoreTable) -> None:
    snapshots = paimon_java.snapshots(table.location)
    assert [snapshot["id"] for snapshot in snapshots] == table.snapshots.ids()
    scan = FileStoreScan(table)
    for theirs in snapshots:
        number = theirs["id"]
        ours = table.snapshots.snapshot(number)
        assert theirs["commitKind"] == ours.commit_kind.value
        assert theirs["totalRecordCount"] == ours.total_record_count
        assert theirs["deltaRecordCount"] == ours.delta_record_count
        assert theirs.get("changelogRecordCount") == ours.changelog_record_count
        for kind, entries in (
            ("all", scan.live(ours)),
            ("delta", scan.delta(ours)),
            ("changelog", scan.changelog(ours)),
        ):
            files = paimon_java.files(table.location, snapshot=number, kind=kind)
            assert by_content([_facts_of(file) for file in files]) == by_content(
                [_facts_of(_described(entry)) for entry in entries]
            )


COMPARED = (
    "file_name", "level", "row_count", "delete_row_count", "min_sequence_number",
    "max_sequence_number", "bucket", "total_buckets", "kind", "schema_id", "file_size",
)  # fmt: skip


def _facts_of(file: dict[str, Any]) -> Row:
    return {name: file[name] for name in COMPARED}


def _described(entry: ManifestEntry) -> dict[str, Any]:
    file = entry.file
    return {
        "bucket": entry.bucket,
        "total_buckets": entry.total_buckets,
        "kind": "ADD" if entry.kind is FileKind.ADD else "DELETE",
        **{name: getattr(file, name) for name in COMPARED if hasattr(file, name)},
    }


def theirs(paimon_java: PaimonJava, writer: TableWriter, changes: list[Change], number: int,
           **options: Any) -> None:  # fmt: skip
    """Write changes by Paimon, and record them in the model under an epoch of their own."""
    rows = [(kind, normal_value(dict(row))) for kind, row in changes]
    paimon_java.write(writer.table.location, rows, identifier=number, options=options)


def attempt(writer: TableWriter, epoch: int, changes: list[Change]) -> None:
    """Write an epoch of ours beside those of others."""
    first = writer.commit.follow_and_wait()
    bucket_changes = write_changes(writer.table, changes, first)
    writer.commit.commit_epoch(epoch, bucket_changes)
