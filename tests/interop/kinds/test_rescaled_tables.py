"""Fixed buckets that change in number: Paimon's Java, PyPaimon and stream_app continue in turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.table.opening import open_for_writing, open_table
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import found_in

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "BIGINT NOT NULL"), ("v", "STRING")]
DAYS = ("d0", "d1")
Rows = dict[tuple[str, int], str]


def changes(
    noise: random.Random, rows: Rows, mark: str, days: Sequence[str] = DAYS
) -> list[Change]:
    """Some upserts and deletes; `rows` becomes what they leave."""
    made: list[Change] = []
    for _ in range(40):
        day, number = noise.choice(days), noise.randrange(60)
        if noise.random() < 0.2:
            rows.pop((day, number), None)
            made.append(("-D", {"dt": day, "id": number, "v": None}))
        else:
            rows[day, number] = mark
            made.append(("+I", {"dt": day, "id": number, "v": mark}))
    return made


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
    table = open_for_writing(open_table(str(location)))

    def check(totals: dict[str, int]) -> None:
        assert by_content(paimon_java.read(location)) == by_content(as_rows(rows))
        assert by_content(normal_rows(pypaimon.read(location))) == by_content(as_rows(rows))
        if not table.merges_by_vectors:
            assert by_content(read_rows(table)) == by_content(as_rows(rows))
        recorded = {
            (file["partition"]["dt"], file["total_buckets"]) for file in paimon_java.files(location)
        }
        assert recorded == {*totals.items()}

    def java_writes(number: int) -> None:
        paimon_java.write(location, changes(noise, rows, f"java {number}"), identifier=number)
        paimon_java.compact(location)

    def we_write(mark: str, user: str) -> None:
        writer = TableWriter(open_table(str(location)), user=user)
        writer.write(changes(noise, rows, mark))
        writer.commit.compact_whole()

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
    assert found_in(table) == []
