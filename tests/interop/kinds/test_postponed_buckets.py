"""Paimon's Java and stream_app postpone rows with ``bucket = -2``, and read the same rows.

Paimon's library has no job that gives postponed rows their buckets; its Flink and Spark have. Java
writes to real buckets as these do: by an option of the process that gives their number.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.model.bucket_id import POSTPONED
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.overwrite.postponed_move import move_postponed
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import findings_of

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"), ("v", "STRING")]
Rows = dict[tuple[str, int], str]


def changes(noise: random.Random, rows: Rows, mark: str) -> list[Change]:
    """Some upserts and deletes; `rows` becomes what they leave."""
    new_changes: list[Change] = []
    for _ in range(40):
        day, number = noise.choice(("d0", "d1")), noise.randrange(60)
        if noise.random() < 0.2:
            rows.pop((day, number), None)
            new_changes.append(("-D", {"dt": day, "id": number, "v": None}))
        else:
            rows[day, number] = mark
            new_changes.append(("+I", {"dt": day, "id": number, "v": mark}))
    return new_changes


def as_rows(rows: Rows) -> list[dict[str, Any]]:
    return [{"dt": day, "id": number, "v": v} for (day, number), v in rows.items()]


@pytest.mark.parametrize("options", [{}, {"changelog-producer": "input"}], ids=["none", "input"])
def test_java_and_we_postpone_rows_and_read_those_that_the_other_has_moved(
    paimon_java: PaimonJava,
    pypaimon: PyPaimonReader,
    tmp_path: Path,
    seed: int,
    options: dict[str, Any],
) -> None:
    location = tmp_path / "shop.db" / "orders"
    noise, rows = random.Random(f"{seed} {sorted(options)}"), Rows()
    paimon_java.create(
        location, COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"],
        options={"bucket": -2, "postpone.default-bucket-num": 3, **options},
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))

    def check(expected: list[dict[str, Any]]) -> None:
        assert by_content(paimon_java.read(location)) == by_content(expected)
        assert by_content(normal_rows(pypaimon.read(location))) == by_content(expected)
        assert by_content(read_rows(table)) == by_content(expected)

    for number in range(3):
        before = as_rows(rows)
        paimon_java.write(location, changes(noise, rows, f"java {number}"), identifier=number)
        check(before)
        assert move_postponed(table) is not None
        check(as_rows(rows))
        before = as_rows(rows)
        writer = TableWriter(table, user=f"ours {number}")
        writer.write(changes(noise, rows, f"ours {number}"))
        check(before)
        waiting = [file for file in paimon_java.files(location) if file["bucket"] == POSTPONED]
        assert {file["total_buckets"] for file in waiting} == {POSTPONED}
        assert move_postponed(table) is not None
        check(as_rows(rows))
        in_buckets = changes(noise, rows, f"java in buckets {number}")
        paimon_java.write(
            location, in_buckets, identifier=100 + number, commit_user="b", options={"bucket": 3}
        )
        check(as_rows(rows))
    TableWriter(table, user="compactor").write([])
    compactor = TableWriter(table, user="another")
    compactor.write([])
    compactor.commit.compact_fully()
    check(as_rows(rows))
    live = FileStoreScan(table).live(table.snapshots.latest())
    assert {entry.total_buckets for entry in live} == {3}
    assert findings_of(table) == []


def test_batches_go_to_the_buckets_that_the_other_engine_has_made(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path
) -> None:
    """PyPaimon 2.1 writes a batch to real buckets; an overwrite here gives a partition others."""
    location = tmp_path / "shop.db" / "orders"
    paimon_java.create(
        location, COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"],
        options={"bucket": -2, "postpone.target-row-num-per-bucket": 10},
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))
    rows: Rows = {}

    def batch(day: str, numbers: range, mark: str) -> pa.Table:
        rows.update({(day, number): mark for number in numbers})
        columns = {"dt": [day] * len(numbers), "id": list(numbers), "v": [mark] * len(numbers)}
        schema = pa.schema(
            [
                pa.field("dt", pa.string(), nullable=False),
                pa.field("id", pa.int64(), nullable=False),
                ("v", pa.string()),
            ]
        )
        return pa.table(columns, schema)

    def check(totals: dict[str, int]) -> None:
        expected = by_content(as_rows(rows))
        for read in (paimon_java.read(location), read_rows(table)):
            assert by_content(read) == expected
        for judged_rows in (pypaimon.read(location), pypaimon.read_by_rust(location)):
            assert by_content(normal_rows(judged_rows)) == expected
        live = FileStoreScan(table).live(table.snapshots.latest())
        assert {
            table.paths.partition_path(entry.partition): entry.total_buckets for entry in live
        } == totals

    pypaimon.write(location, batch("d0", range(35), "theirs"), postpones=False)
    check({"dt=d0": 4})
    PaimonTable(table).overwrite(batch("d1", range(25), "ours"))
    check({"dt=d0": 4, "dt=d1": 4})
    pypaimon.write(location, batch("d1", range(20, 60), "theirs again"), postpones=False)
    check({"dt=d0": 4, "dt=d1": 4})
    writer = TableWriter(table, user="waits")
    writer.write([("+I", {"dt": "d1", "id": 3, "v": "waits"})])
    rows["d1", 3] = "waits"
    assert move_postponed(table) is not None
    check({"dt=d0": 4, "dt=d1": 4})
    assert findings_of(table) == []
