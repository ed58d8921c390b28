"""Paimon and stream_app read and continue each other's tables after tags and rollbacks."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.orphan_files import plan_orphans
from stream_app.table.upkeep.rollback import plan_rollback, roll_back, rollback_target
from stream_app.table.upkeep.tags import create_tag, delete_tags, new_tag, plan_tag_deletion
from stream_app.table.versions.time_travel import Version
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava, sorted_rows
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.expiring_table import files_on_disk, files_that_are_named
from tests.support.tables.small_table import small_table
from tests.support.tables.sound_table import findings_of

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


def our_table(path: Path) -> TableWriter:
    table = small_table(
        path, "k INT, v STRING", ("k",), num_sorted_run__compaction_trigger=3, bucket=2
    ).table
    writer = TableWriter(table)
    changes = RandomChanges(table.schema, random.Random(3), key_count=12)
    for _ in range(8):
        writer.write(changes.epoch(5))
    writer.commit.compact_due()
    return writer


def roll_back_to(table: FileStoreTable, **version: Any) -> None:
    target = rollback_target(table, Version(**version))
    roll_back(table, plan_rollback(table, target), resets_consumers=False)


def rows_at(paimon_java: PaimonJava, path: Path, tag: str) -> list[dict[str, Any]]:
    return sorted_rows(paimon_java.read(path, options={"scan.tag-name": tag}))


def test_paimon_reads_our_tags_and_keeps_them(tmp_path: Path, paimon_java: PaimonJava) -> None:
    path = tmp_path / "shop.db" / "t"
    table = our_table(path).table
    expected = sorted_rows(paimon_java.read(path, snapshot=3))
    assert create_tag(table, new_tag(table, "plain", 3))
    assert create_tag(table, new_tag(table, "timed", 3, 86_400_500))
    paimon_java.expire(path, retain_max=1, retain_min=1)
    assert rows_at(paimon_java, path, "plain") == expected
    assert rows_at(paimon_java, path, "timed") == expected
    tags = {row["tag_name"]: row for row in paimon_java.read(f"{path}$tags")}
    assert tags["timed"]["snapshot_id"] == 3
    assert tags["timed"]["time_retained"] == "PT24H0.5S"
    assert tags["plain"]["time_retained"] is None
    assert findings_of(table) == []
    delete_tags(table, plan_tag_deletion(table, ["plain", "timed"]))
    assert files_on_disk(table) == files_that_are_named(table)
    assert sorted_rows(paimon_java.read(path)) == sorted_rows(read_rows(table))


def test_paimon_goes_on_where_quiet_days_were_tagged(
    tmp_path: Path, paimon_java: PaimonJava
) -> None:
    path = tmp_path / "shop.db" / "t"
    table = small_table(
        path, "k INT, v STRING", ("k",), tag__automatic_creation="process-time",
        tag__num_retained_max=3, sink__process_time_zone="+00:00",
    )  # fmt: skip
    upkeep = TableMaintenance(table.table)
    table.commit(("+I", {"k": 1, "v": "x"}))
    upkeep.after_commit()
    for _ in range(3):
        table.table.clock.sleep(86_400)
        upkeep.while_idle()
    ours = ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert table.table.tags.names() == ours
    assert rows_at(paimon_java, path, "2026-01-02") == [{"k": 1, "v": "x"}]
    paimon_java.write(path, [("+I", {"k": 2, "v": "y"})], identifier=99)
    # It looks for the newest, and takes the oldest away; two tags of one snapshot would stop it.
    assert table.table.tags.names()[:-1] == ours[1:]
    assert findings_of(table.table) == []


def test_paimon_leaves_what_a_protected_reader_reads(
    tmp_path: Path, paimon_java: PaimonJava
) -> None:
    path = tmp_path / "shop.db" / "t"
    writer = our_table(path)
    expected = sorted_rows(paimon_java.read(path, snapshot=3))
    table = stream_app.open_table(str(path))
    reader = table.read(snapshot=3, threads=1, protect="1 h")
    dead = [table.read(snapshot=2, protect=protection) for protection in ("1 h", "1 s")]
    paimon_java.expire(path, retain_max=1, retain_min=1)
    earliest = writer.table.snapshots.earliest_id()
    assert earliest is not None
    assert earliest > 3
    assert sorted_rows(normal_rows(reader.read_all())) == expected
    assert len(writer.table.tags.names()) == len(dead)
    time.sleep(1.1)
    # Commits of Paimon delete tags whose retention has passed.
    paimon_java.write(path, [("+I", {"k": 1, "v": "x"})], identifier=99)
    (tag,) = writer.table.tags.tags()
    assert tag.time_retained_ms == 3_600_000
    dead.clear()
    assert files_on_disk(writer.table) == files_that_are_named(writer.table)


def test_paimon_goes_on_where_we_have_gone_back(tmp_path: Path, paimon_java: PaimonJava) -> None:
    path = tmp_path / "shop.db" / "t"
    table = our_table(path).table
    assert create_tag(table, new_tag(table, "t", 3))
    expected = sorted_rows(paimon_java.read(path, snapshot=3))
    paimon_java.expire(path, retain_max=2, retain_min=2)
    roll_back_to(table, tag="t")
    assert sorted_rows(paimon_java.read(path)) == expected
    for number in range(3):
        rows = [("+I", {"k": key, "v": f"java {number}"}) for key in range(20)]
        paimon_java.write(path, rows, identifier=number)
    assert sorted_rows(paimon_java.read(path)) == sorted_rows(read_rows(table))
    written = [{"k": key, "v": "java 2"} for key in range(20)]
    assert all(row in read_rows(table) for row in written)
    assert findings_of(table) == []


def test_java_and_we_roll_back_to_the_same_state(tmp_path: Path, paimon_java: PaimonJava) -> None:
    path = tmp_path / "shop.db" / "t"
    table = our_table(path).table
    assert create_tag(table, new_tag(table, "later", 6))
    java_path = tmp_path / "theirs" / "shop.db" / "t"
    shutil.copytree(path, java_path)
    roll_back_to(table, snapshot=4)
    paimon_java.roll_back(java_path, snapshot=4)
    java_table = open_file_store_table(str(java_path))
    assert table.snapshots.ids() == java_table.snapshots.ids()
    assert table.tags.names() == java_table.tags.names() == []
    assert sorted_rows(read_rows(table)) == sorted_rows(read_rows(java_table))
    assert findings_of(java_table) == []
    # The files that Paimon leaves are orphans; stream_app leaves none.
    assert plan_orphans(table, 10**15).files == ()
    file_names = files_that_are_named(java_table)
    orphans = {file.name for file in plan_orphans(java_table, 10**15).files}
    assert files_on_disk(java_table) - file_names == orphans
    assert files_on_disk(table) == files_that_are_named(table)


def test_tables_of_paimon_are_sound(tmp_path: Path, paimon_java: PaimonJava) -> None:
    """The tables have deletion vectors, compacted changelogs, partitions and added columns."""
    options: dict[str, dict[str, Any]] = {
        "vectors": {"deletion-vectors.enabled": True, "changelog-producer": "lookup"},
        "lookup": {"changelog-producer": "lookup"},
        "plain": {"manifest.merge-min-count": 2},
    }
    for name, more in options.items():
        path = tmp_path / "shop.db" / name
        paimon_java.create(
            path, [("p", "INT NOT NULL"), ("k", "INT NOT NULL"), ("v", "STRING")],
            primary_keys=["p", "k"], partition_keys=["p"],
            options={"bucket": 2, "num-sorted-run.compaction-trigger": 2, **more},
        )  # fmt: skip
        for number in range(5):
            rows: list[Any] = [
                ("+I", {"p": k % 2, "k": k, "v": f"{number}"}) for k in range(number, number + 9)
            ]
            rows.append(("-D", {"p": number % 2, "k": number, "v": ""}))
            if number == 3:
                paimon_java.alter(path, ("add", "w", "DOUBLE"))
                paimon_java.tag(path, "t", 2)
            if number >= 3:
                rows = [(kind, {**row, "w": None}) for kind, row in rows]
            paimon_java.write(path, rows, identifier=number)
        paimon_java.expire(path, retain_max=3, retain_min=3)
        assert findings_of(open_file_store_table(str(path))) == [], name


@pytest.mark.parametrize("key", ["k", ""])
def test_tables_of_pypaimon_are_sound(tmp_path: Path, pypaimon: PyPaimonReader, key: str) -> None:
    path = tmp_path / "shop.db" / "t"
    schema = pa.schema(
        [pa.field("k", pa.int32(), nullable=False), ("v", pa.string()), ("d", pa.float64())]
    )
    for number in range(3):
        columns = {"k": [5, 1, number + 10], "v": ["b", None, "x"], "d": [1.5, None, float(number)]}
        options = {"bucket": 2} if key else {}
        keys = [key] if key else []
        rows = pa.table(columns, schema=schema)
        pypaimon.write(path, rows, primary_keys=keys, options=options)
    table = open_file_store_table(str(path))
    assert findings_of(table) == []
    assert table.snapshots.ids() == [1, 2, 3]


def test_tags_of_java_and_ours_have_success_files(tmp_path: Path, paimon_java: PaimonJava) -> None:
    path = tmp_path / "shop.db" / "t"
    small = small_table(path, "k INT, v STRING", ("k",), tag__create_success_file=True)
    for number in range(5):
        small.commit(("+I", {"k": number, "v": "a"}))
    table = small.table
    paimon_java.tag(path, "theirs", 3)
    assert create_tag(table, new_tag(table, "ours", 4))
    folder = path / "tag" / "tag-success-file"
    texts = {file.name: file.read_text() for file in folder.iterdir()}
    assert texts.keys() == {"theirs_SUCCESS", "ours_SUCCESS"}
    for text in texts.values():
        assert '"creationTime"' in text
        assert '"modificationTime"' in text
    assert table.tags.names() == ["ours", "theirs"]
    assert {row["tag_name"] for row in paimon_java.read(f"{path}$tags")} == {"ours", "theirs"}
    delete_tags(table, plan_tag_deletion(table, ["theirs"]))
    assert [file.name for file in folder.iterdir()] == ["ours_SUCCESS"]
