"""Paimon's Java, PyPaimon and stream_app continue tables in turns, with other bucket counts."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.model.bucket_id import POSTPONED
from stream_app.table.opening import open_file_store_table, require_writable
from stream_app.table.overwrite.postponed_move import move_postponed
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import findings_of

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"), ("v", "STRING")]
DAYS = ("d0", "d1")
Rows = dict[tuple[str, int], str]


def changes(
    noise: random.Random, rows: Rows, mark: str, days: Sequence[str] = DAYS
) -> list[Change]:
    """Some upserts and deletes; `rows` becomes what they leave."""
    new_changes: list[Change] = []
    for _ in range(40):
        day, number = noise.choice(days), noise.randrange(60)
        if noise.random() < 0.2:
            rows.pop((day, number), None)
            new_changes.append(("-D", {"dt": day, "id": number, "v": None}))
        else:
            rows[day, number] = mark
            new_changes.append(("+I", {"dt": day, "id": number, "v": mark}))
    return new_changes


def totals(paimon_java: PaimonJava, location: Path) -> set[tuple[str, int]]:
    files = paimon_java.files(location)
    return {(file["partition"]["dt"], file["total_buckets"]) for file in files}


def as_rows(rows: Rows) -> list[dict[str, Any]]:
    return [{"dt": day, "id": number, "v": v} for (day, number), v in rows.items()]


@pytest.mark.parametrize(
    "options",
    [{}, {"changelog-producer": "lookup"}, {"deletion-vectors.enabled": True}],
    ids=["none", "lookup", "vectors"],
)
def test_engines_continue_after_each_others_rescale(
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
        options={"bucket": 2, **options},
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))

    def check(expected: dict[str, int]) -> None:
        assert by_content(paimon_java.read(location)) == by_content(as_rows(rows))
        assert by_content(normal_rows(pypaimon.read(location))) == by_content(as_rows(rows))
        if not table.merges_by_vectors:
            assert by_content(read_rows(table)) == by_content(as_rows(rows))
        assert totals(paimon_java, location) == {*expected.items()}

    def java_writes(number: int) -> None:
        paimon_java.write(location, changes(noise, rows, f"java {number}"), identifier=number)
        paimon_java.compact(location)

    def we_write(mark: str, user: str) -> None:
        writer = TableWriter(open_file_store_table(str(location)), user=user)
        writer.write(changes(noise, rows, mark))
        writer.commit.compact_fully()

    java_writes(1)
    we_write("ours 1", "a")
    check({"d0": 2, "d1": 2})

    assert main(["rescale", str(location), "--buckets", "3"]) == 0
    check({"d0": 3, "d1": 3})
    java_writes(2)
    we_write("ours 2", "b")
    check({"d0": 3, "d1": 3})

    paimon_java.alter(location, ("option", "bucket", "5"))
    of_a_day = [("+I", row) for row in paimon_java.read(location) if row["dt"] == "d0"]
    paimon_java.batch_write(location, of_a_day, overwrite=True)
    check({"d0": 5, "d1": 3})
    we_write("ours 3", "c")
    check({"d0": 5, "d1": 3})
    with pytest.raises(PaimonError, match="with a new bucket num 5, but the previous"):
        paimon_java.compact(location)  # Java writes by the table's number alone

    assert main(["rescale", str(location), "--partition", "dt=d1"]) == 0
    check({"d0": 5, "d1": 5})
    java_writes(4)
    we_write("ours 4", "d")
    check({"d0": 5, "d1": 5})
    assert findings_of(table) == []


def test_postponed_rows_wait_while_their_partition_is_rescaled(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, seed: int
) -> None:
    location = tmp_path / "shop.db" / "orders"
    noise, rows = random.Random(seed), Rows()
    paimon_java.create(
        location, COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"],
        options={"bucket": -2, "postpone.default-bucket-num": 2},
    )  # fmt: skip
    table = require_writable(open_file_store_table(str(location)))

    def check(expected: list[dict[str, Any]]) -> None:
        assert by_content(paimon_java.read(location)) == by_content(expected)
        assert by_content(normal_rows(pypaimon.read(location))) == by_content(expected)
        assert by_content(read_rows(table)) == by_content(expected)

    paimon_java.write(location, changes(noise, rows, "java"), identifier=1)
    assert move_postponed(table) is not None
    moved_rows = as_rows(rows)
    TableWriter(table, user="a").write(changes(noise, rows, "ours"))
    assert main(["rescale", str(location)]) == 2, "no option tells the number"
    assert main(["rescale", str(location), "--partition", "dt=d1", "--buckets", "3"]) == 0
    check(moved_rows)
    assert totals(paimon_java, location) == {("d0", 2), ("d1", 3), ("d0", -2), ("d1", -2)}
    assert move_postponed(table) is not None
    check(as_rows(rows))
    assert totals(paimon_java, location) == {("d0", 2), ("d1", 3)}
    assert main(["rescale", str(location), "--buckets", "1"]) == 0
    paimon_java.write(
        location, changes(noise, rows, "java 2"), identifier=2, commit_user="b",
        options={"bucket": 1},
    )  # fmt: skip
    paimon_java.compact(location, options={"bucket": 1})
    check(as_rows(rows))
    assert open_file_store_table(str(location)).options.bucket == POSTPONED
    assert findings_of(table) == []


@pytest.mark.parametrize("checksum", [{}, {"stream-app.row-checksum": True}], ids=["", "summed"])
def test_rows_without_a_key_keep_their_order(
    paimon_java: PaimonJava,
    pypaimon: PyPaimonReader,
    tmp_path: Path,
    seed: int,
    checksum: dict[str, Any],
) -> None:
    location, noise = tmp_path / "shop.db" / "orders", random.Random(seed)
    paimon_java.create(
        location, COLUMNS, partition_keys=["dt"],
        options={"bucket": 4, "bucket-key": "id", "compaction.min.file-num": 3, **checksum},
    )  # fmt: skip
    rows: list[dict[str, Any]] = []

    def more() -> list[Change]:
        new = [
            {"dt": noise.choice(DAYS), "id": noise.randrange(9), "v": f"{len(rows) + number:06}"}
            for number in range(20)
        ]
        rows.extend(new)
        return [("+I", row) for row in new]

    def check(expected: dict[str, int]) -> None:
        assert by_content(normal_rows(pypaimon.read(location))) == by_content(rows)
        for read in (paimon_java.read(location), read_rows(open_file_store_table(str(location)))):
            assert by_content(read) == by_content(rows)
            for day, number in {(row["dt"], row["id"]) for row in rows}:
                values = [row["v"] for row in read if (row["dt"], row["id"]) == (day, number)]
                assert values == sorted(values), "in the order in which they were written"
        assert totals(paimon_java, location) == {*expected.items()}

    writer = TableWriter(open_file_store_table(str(location)), user="a")
    for number, (partition, buckets) in enumerate([("dt=d0", 6), ("dt=d1", 3), ("dt=d0", 1)]):
        for _ in range(4):
            writer.write(more())
        words = ["rescale", str(location), "--partition", partition, "--buckets", str(buckets)]
        assert main(words) == 0
        check([{"d0": 6, "d1": 4}, {"d0": 6, "d1": 3}, {"d0": 1, "d1": 3}][number])
    writer.write(more())
    assert main(["rescale", str(location), "--buckets", "2"]) == 0
    paimon_java.write(location, more(), identifier=9, commit_user="b")
    paimon_java.compact(location)
    check({"d0": 2, "d1": 2})
    TableWriter(open_file_store_table(str(location)), user="c").write(more())
    check({"d0": 2, "d1": 2})
    assert findings_of(open_file_store_table(str(location))) == []
