"""Paimon and stream_app unite each other's bitmaps and sketches in columns of bytes."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.table.file_store_table import FileStoreTable
from tests.support.interop.compacted_tables import compact_fully
from tests.support.jobs.table_writer import TableWriter, read_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
FUNCTIONS = ("rbm32", "rbm64", "hll_sketch", "theta_sketch")
SIZES = (0, 1, 2, 5, 40, 600, 5000)
KEYS, EPOCHS = 3, 4


def _numbers(chance: random.Random) -> list[int]:
    """Some at random, and some in a row."""
    size = chance.choice(SIZES)
    start = chance.randrange(2**31 - size)
    return [*range(start, start + size // 2), *(chance.randrange(2**31) for _ in range(size // 2))]


def _far_numbers(chance: random.Random) -> list[int]:
    """Numbers below 300 in up to 60 ranges; in one of them many in a row."""
    ranges = chance.randrange(1, 60)
    far = [(chance.randrange(ranges) << 40) + chance.randrange(300) for _ in range(2 * ranges)]
    return [-chance.randrange(2**62), *range(chance.choice(SIZES)), *far]


def _sets_of(java: PaimonJava, function: str, numbers: Iterable[list[int]]) -> list[bytes]:
    answer = java.ask("set_values", function=function, made=list(numbers), described=[])
    return [base64.b64decode(value) for value in answer["made"]]


def _described_value(java: PaimonJava, function: str, value: bytes | None) -> str | None:
    """Return a value's count of numbers and their hash, or a sketch's estimate."""
    if value is None:
        return None
    encoded_values = [base64.b64encode(value).decode()]
    answer: list[str] = java.ask(
        "set_values", function=function, made=[], described=encoded_values
    )["described"]
    return answer[0]


def _changes(java: PaimonJava, chance: random.Random, count: int) -> list[Change]:
    columns = {
        name: _sets_of(
            java,
            name,
            [(_far_numbers if name == "rbm64" else _numbers)(chance) for _ in range(count)],
        )
        for name in FUNCTIONS
    }
    return [
        ("+I", {
            "k": chance.randrange(KEYS),
            **{name: chance.choice((columns[name][operation], None)) for name in FUNCTIONS},
        })
        for operation in range(count)
    ]  # fmt: skip


def _row_contents(java: PaimonJava, rows: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
    """Return the content of each row's values, as Java reads them."""
    for row in sorted(rows, key=lambda row: row["k"]):
        yield [row["k"], *(_described_value(java, name, row[name]) for name in FUNCTIONS)]


def test_java_reads_the_sets_that_it_would_make(
    paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    """Writers and compactions of one table take turns; the other is Java's alone."""
    chance = random.Random(f"{seed} sets")
    paths = [tmp_path / "db.db" / name for name in ("turns", "java")]
    for path in paths:
        columns = [("k", "INT NOT NULL"), *((name, "BYTES") for name in FUNCTIONS)]
        options = {"bucket": 1, "merge-engine": "aggregation", "write-only": True}
        options |= {f"fields.{name}.aggregate-function": name for name in FUNCTIONS}
        paimon_java.create(path, columns, primary_keys=["k"], options=options)
    turns, alone = paths
    table: FileStoreTable = stream_app.open_table(str(turns)).table
    writer = TableWriter(table)
    for epoch in range(EPOCHS):
        changes = _changes(paimon_java, chance, 6)
        paimon_java.write(alone, changes, identifier=epoch)
        if epoch % 2:
            paimon_java.write(turns, changes, identifier=100 + epoch)
        else:
            writer.write(changes)
        expected = list(_row_contents(paimon_java, paimon_java.read(alone)))
        assert list(_row_contents(paimon_java, read_rows(table))) == expected
        assert list(_row_contents(paimon_java, paimon_java.read(turns))) == expected
        if epoch == EPOCHS // 2:
            compact_fully(table.with_options({"write-only": "false"}))
