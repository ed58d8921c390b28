"""Paimon continues after our compactions, and we continue after those of Paimon."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.compaction_report import reports_of_property
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.lookup.lookup_reader import bucket_lookup
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.compacting_table import wait_for_plan
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content, read_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change, small_table, write_changes

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


def rows(epoch: int, count: int = 4) -> list[Change]:
    return [("+I", {"k": epoch * 1000 + k, "v": str(k)}) for k in range(count)]


@pytest.mark.parametrize("deletes", [False, True])
def test_paimon_compacts_what_is_planned(
    paimon_java: PaimonJava, tmp_path: Path, deletes: bool
) -> None:
    options = {"deletion_vectors__enabled": "true"} if deletes else {}
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", **options).table
    writer = TableWriter(table, CompactInCaller)
    for epoch in range(5):
        writer.write(rows(epoch))
        wait_for_plan(writer.commit)
    expected: list[Mapping[str, Any]] = [row for epoch in range(5) for _, row in rows(epoch)]
    if deletes:
        [first, *_] = sorted(paimon_java.files(table.location), key=lambda f: f["file_name"])
        before = paimon_java.read(table.location)
        paimon_java.delete_rows(table.location, {first["file_name"]: [0, 1]})
        expected = [*paimon_java.read(table.location)]
        assert len(before) - len(expected) == 2
    paimon_java.compact(table.location)
    assert by_content(paimon_java.read(table.location)) == by_content(expected)
    for epoch in range(5, 8):
        writer.write(rows(epoch))
        expected += [dict(row) for _, row in rows(epoch)]
    try:
        assert by_content(paimon_java.read(table.location)) == by_content(expected)
    finally:
        print("Java may still compact:", paimon_java.compact(table.location))


def test_paimon_continues_where_the_job_has_fitted_sizes_to_the_levels(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    table = small_table(
        tmp_path / "db.db" / "t",
        "k INT, v STRING",
        ("k",),
        compaction__max_size_amplification_percent=10_000,
    ).table
    writer = TableWriter(table, CompactInCaller)
    writer.commit.state.coordinator.adapt(PolicyBounds(10))
    values = dict[int, str]()
    for epoch in range(40):
        keys = range(epoch % 5, 100, 5 + epoch % 3)
        writer.write([("+I", {"k": k, "v": str(epoch)}) for k in keys])
        values |= dict.fromkeys(keys, str(epoch))
    reports = [
        report
        for snapshot in table.snapshots.backwards()
        for report in reports_of_property(snapshot.properties) or ()
    ]
    assert "levels" in {report.reason for report in reports}
    assert all("sizes for 6 levels" in str(report.policy) for report in reports)
    expected = by_content([{"k": k, "v": v} for k, v in values.items()])
    assert by_content(paimon_java.read(table.location)) == expected
    paimon_java.compact(table.location)
    assert {file["level"] for file in paimon_java.files(table.location)} == {5}
    assert by_content(paimon_java.read(table.location)) == expected
    assert by_content(read_rows(table)) == expected


def test_a_rescaled_partition(paimon_java: PaimonJava, tmp_path: Path) -> None:
    table = small_table(
        tmp_path / "db.db" / "t", "dt STRING, k INT, v STRING", ("dt", "k"), ("dt",),
        bucket=2, write_only="true",
    ).table  # fmt: skip
    writer = TableWriter(table)
    for epoch in range(3):
        writer.write([("+I", {"dt": "a", "k": k, "v": str(epoch)}) for k in range(20)])
    altered_schema = replace(
        table.schema, schema_id=1, options={**table.schema.options, "bucket": "4"}
    )
    assert table.schemas.create(altered_schema)

    def lost() -> list[int]:
        return [
            k for k in range(20) if not paimon_java.read(table.location, where={"dt": "a", "k": k})
        ]

    assert lost() == []
    rescaled_table = require_writable(open_file_store_table(table.location, table.clock))
    job = rescaled_table.with_options({"write-only": "false"})
    compactor = StreamTableCommit(
        job, "c", CompactInCaller(job), last_identifier=BATCH_COMMIT_IDENTIFIER
    )
    compactor.compact_fully()
    assert lost() == []


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "TIMESTAMP(6)"])
def test_the_same_rows_expire(paimon_java: PaimonJava, tmp_path: Path, kind: str) -> None:
    """Paimon compacts one of two tables with the same rows, and we compact the other."""
    options = {"record_level__expire_time": "1000 d", "record_level__time_field": "t"}
    days = [dt.datetime(year, 1, 1) for year in (1999, 2037)]  # noqa: DTZ001
    seconds = [int(day.replace(tzinfo=dt.UTC).timestamp()) for day in days]
    times = days if kind.startswith("TIMESTAMP") else seconds
    remaining = []
    for name in ("ours", "theirs"):
        table = small_table(tmp_path / "db.db" / name, f"k INT, t {kind}", ("k",), **options).table
        writer = TableWriter(table)
        writer.write([("+I", {"k": k, "t": time}) for k, time in enumerate([*times, None])])
        writer.write([("+I", {"k": 9, "t": times[0]})])
        assert len(paimon_java.read(table.location)) == 4
        if name == "ours":
            writer.commit.compact_fully()
        else:
            paimon_java.compact(table.location)
        remaining.append(sorted(row["k"] for row in paimon_java.read(table.location)))
    assert remaining == [[1, 2], [1, 2]]


def test_of_two_rows_with_one_number_the_lower_level_counts(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Writers side by side give one number twice. Paimon's lookups take the lower level's row."""
    keys = [{"k": k} for k in range(6)]
    expected = by_content({**key, "v": "second"} for key in keys)
    levels = {5: "first", 4: "second"}
    for compacts, order in (("ours", (5, 4)), ("theirs", (4, 5))):
        table = small_table(
            tmp_path / "db.db" / compacts, "k INT, v STRING", ("k",), changelog_producer="lookup"
        ).table
        for epoch, level in enumerate(order):
            rows: list[Change] = [("+I", {**key, "v": levels[level]}) for key in keys]
            [change] = write_changes(table, rows, 0)
            lifted_files = tuple(file.at_level(level) for file in change.added_files)
            commit = FileStoreCommit(table, CommitHistory(table, "a", table.snapshots.latest()))
            change = replace(change, added_files=lifted_files)
            commit.commit_appends(ManifestCommittable(identifier=epoch, changes=(change,)))
        assert by_content(read_rows(table)) == expected
        assert by_content(paimon_java.read(table.location)) == expected
        live = FileStoreScan(table).live(table.snapshots.latest())
        assert sorted(entry.file.level for entry in live) == [4, 5]
        probe = pa.RecordBatch.from_pylist(keys, arrow_schema(table.schema.key_type))
        lookup = bucket_lookup(table, live[0].partition, 0, ("v",))
        matches = lookup.rows(probe, [entry.file for entry in live])
        assert matches.rows.column("v").to_pylist() == ["second"] * len(keys)
        if compacts == "ours":
            StreamTableCommit(table, "a", CompactInCaller(table)).compact_fully()
        else:
            paimon_java.compact(table.location)
        assert by_content(read_rows(table)) == expected
