"""Upkeep verbs handle tables with a key index or deletion vectors, whose jobs continue.

Each verb is the command line's. Behind each the next epochs meet old keys and new ones: what the
index and the vectors say of rows that have gone would show in the rows.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import require_writable
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, read_rows
from tests.support.tables.small_table import Change, small_table
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
COLUMNS = "id BIGINT NOT NULL, p STRING, v INT"
VECTORS = {"deletion_vectors__enabled": "true", "changelog_producer": "lookup"}
DYNAMIC = {"bucket": "-1", "dynamic_bucket__target_row_num": "5"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "vectors": {"bucket": "2", **VECTORS},
    "dynamic buckets with vectors": {**DYNAMIC, **VECTORS},
    "across partitions": {**DYNAMIC, "changelog_producer": "lookup"},
}
Rows = dict[tuple[str, int], int]
"""Partition and id → value."""


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "disk"))


@dataclass
class Story:
    """A table, the job that writes it, and the rows that it must have."""

    kind: str
    table: FileStoreTable
    rows: Rows = field(default_factory=dict)
    jobs: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def __post_init__(self) -> None:
        self.start()

    @property
    def crosses(self) -> bool:
        return self.kind.startswith("across")

    @property
    def newest(self) -> int:
        latest_id = self.table.snapshots.latest_id()
        assert latest_id is not None
        return latest_id

    def start(self) -> None:
        """A job with a new checkpoint, by the latest schema."""
        self.jobs += 1
        self.table = require_writable(stream_app.open_table(self.table.location).table)
        user = f"job{self.jobs}"
        if self.crosses:
            self.job: Any = CrossPartitionJob(self.table, user)
        else:
            self.job = TableWriter(self.table, CompactInCaller, user)

    def write(self) -> None:
        """Epochs of upserts and deletes."""
        for _ in range(2):
            changes = [self._change() for _ in range(12)]
            self.job.write(*changes) if self.crosses else self.job.write(changes)
        self.check()

    def check(self) -> None:
        rows = {(row["p"], row["id"]): row["v"] for row in read_rows(self.table)}
        assert rows == self.rows

    def verb(self, name: str, *words: str) -> None:
        assert main([name, self.table.location, *words]) == 0
        self.check()
        sound_report(self.table)

    def _change(self) -> Change:
        key, partition = self.chance.randrange(30), self.chance.choice("abc")
        value = self.chance.randrange(1000)
        row = {"id": key, "p": partition, "v": value}
        if self.crosses:
            self.rows = {place: v for place, v in self.rows.items() if place[1] != key}
        if self.chance.random() < 0.2:
            self.rows.pop((partition, key), None)
            return "-D", row
        self.rows[partition, key] = value
        return "+I", row


@pytest.fixture(params=KINDS)
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Story:
    kind, path = request.param, tmp_path / "db.db" / "t"
    options = {**KINDS[kind], "num_sorted_run__compaction_trigger": "3"}
    if kind.startswith("across"):
        return Story(kind, cross_partition_table(path, COLUMNS, **options))
    return Story(kind, small_table(path, COLUMNS, ("p", "id"), ("p",), **options).table)


def test_a_table_stays_right_through_all_verbs_of_upkeep(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.write()
    first, rows = story.newest, dict(story.rows)
    story.write()
    assert applied(rows, story.table, first, story.newest) == story.rows

    story.rows = rows
    story.verb("rollback-to", "--snapshot", str(first))
    story.start()  # the old checkpoint is of a later time
    story.write()

    story.rows = {place: v for place, v in story.rows.items() if place[0] != "a"}
    story.verb("drop-partition", "p=a")
    story.write()

    litter = Path(story.table.location, "index", "index-of-nobody")
    litter.parent.mkdir(exist_ok=True)
    litter.write_bytes(b"x")
    os.utime(litter, (1, 1))  # one written in this very millisecond is not older than 0 s
    story.verb("remove-orphan-files", "--older-than", "0s", "--no-writers")
    assert not litter.exists()
    story.write()

    story.rows = {}
    story.verb("truncate")
    story.write()

    if story.table.options.bucket == -1:
        assert main(["alter", story.table.location, "--set", "bucket=4"]) == 2
        assert "cannot change from or to -1" in capsys.readouterr().err
    story.verb("alter", "--add-column", "w INT", "--set", "dynamic-bucket.target-row-num=9")
    story.start()
    story.write()
    story.verb("expire-snapshots", "--retain-max", "1", "--retain-min", "1")
    story.write()
    sound_report(story.table)


def applied(rows: Rows, table: FileStoreTable, start: int, end: int) -> Rows:
    """Rows of a snapshot, with the difference to another one."""
    reader = stream_app.PaimonTable(table).read_incremental(
        (start, end), scan_mode="diff", row_kind=True
    )
    changes = reader.read_all().to_pylist()
    deleted_places = {(row["p"], row["id"]) for row in changes if row["rowkind"] == "-D"}
    remaining_values = {place: v for place, v in rows.items() if place not in deleted_places}
    return remaining_values | {
        (row["p"], row["id"]): row["v"] for row in changes if row["rowkind"] != "-D"
    }
