"""Readers return the right rows or an error after any single bit of a file has changed.

Never other rows, and never an error that does not say which file it is about.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import stream_app
from stream_app.errors import StreamAppError
from stream_app.table.check.table_check import TableCheck
from stream_app.table.opening import open_file_store_table
from tests.support.tables.small_table import small_table

pytestmark = pytest.mark.usefixtures("unsynced")
FLIPS = 30
"""Of each kind of file; each is read in all ways."""
KINDS = {
    "data": "data-*",
    "changelog": "changelog-*",
    "manifest": "manifest-[!l]*",
    "manifest list": "manifest-list-*",
    "snapshot": "snapshot-*",
    "schema": "schema-*",
}
COLUMNS = (
    "day STRING NOT NULL, id BIGINT NOT NULL, name STRING, n INT, x DOUBLE, price DECIMAL(10,2), "
    "at TIMESTAMP(3), fine TIMESTAMP(6), born DATE, b BOOLEAN"
)
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four epochs, deletes, a compaction; all versions are left."""
    small = small_table(
        tmp_path_factory.mktemp("flipped") / "t",
        COLUMNS,
        ("day", "id"),
        ("day",),
        changelog_producer="input",
        num_sorted_run__compaction_trigger=3,
    )
    for epoch in range(4):
        kind = "+U" if epoch else "+I"
        changes = [(kind, a_row(key, epoch)) for key in range(0, 40, epoch + 1)]
        small.commit(*changes, *([("-D", a_row(21, 0))] if epoch == 3 else []))
    small.compact()
    return Path(small.path)


def a_row(key: int, epoch: int) -> dict[str, Any]:
    time = dt.datetime(2026, 1, 1) + dt.timedelta(seconds=key * epoch)  # noqa: DTZ001 - has no zone
    return {
        "day": "ab"[key % 2],
        "id": key,
        "name": f"name {key} {epoch}" if key % 7 else None,
        "n": key * epoch,
        "x": key / 3 + epoch,
        "price": Decimal(key * 100 + epoch) / 100,
        "at": time,
        "fine": time,
        "born": time.date(),
        "b": key % 3 == 0,
    }


def answers(path: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """All ways to ask the table."""
    opened_table = stream_app.open_table(str(path))

    def rows(**query: Any) -> list[str]:
        return sorted(map(repr, opened_table.read(threads=1, **query).read_all().to_pylist()))

    def changes() -> list[str]:
        read = opened_table.changelog(start="from-snapshot", snapshot=1, end=5)
        return sorted(repr(row) for batch in read for row in batch.rows.to_pylist())

    yield "rows", rows
    yield "rows by key", lambda: rows(where="id = 12")
    yield "rows by value", lambda: rows(where="n > 60", columns=["n"])
    yield "rows of an older version", lambda: rows(snapshot=2)
    yield "changes", changes
    yield "splits", lambda: sorted(map(repr, opened_table.splits()))


def answers_of(path: Path, name: str) -> Answer:
    """Return the answers; None if an error names the file; empty if the table cannot be opened."""
    try:
        questions = list(answers(path))
    except StreamAppError as error:
        _judge(error, name)
        return {}
    return {question: _or_none(ask, name) for question, ask in questions}


def _or_none(ask: Callable[[], object], name: str) -> object:
    try:
        return ask()
    except StreamAppError as error:
        _judge(error, name)
        return None


def _judge(error: StreamAppError, name: str) -> None:
    assert name in error.where, error
    assert error.fix


@contextmanager
def flipped(file: Path, bit: int) -> Iterator[None]:
    whole = file.read_bytes()
    changed_bytes = bytearray(whole)
    changed_bytes[bit // 8] ^= 1 << (bit % 8)
    file.write_bytes(changed_bytes)
    try:
        yield
    finally:
        file.write_bytes(whole)


def findings(path: Path) -> list[str]:
    """Return the findings of the check, or its error if it cannot open the table."""
    try:
        table = open_file_store_table(str(path))
        return [
            str(finding)
            for finding in TableCheck(table, is_quick=False, progress=lambda *_: None).findings()
        ]
    except StreamAppError as error:
        return [str(error)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_is_found_or_harmless(table: Path, kind: str, seed: int) -> None:
    right = answers_of(table, "")
    assert None not in right.values()
    assert findings(table) == []
    files = sorted(table.rglob(KINDS[kind]))
    assert files
    chosen = random.Random(f"{seed} {kind}")
    harmful = 0
    for _ in range(FLIPS):
        file = chosen.choice(files)
        # Half of them in the footer of a data file, whose bytes no checksum of Parquet covers.
        start = file.stat().st_size // 2 if file.suffix == ".parquet" else 0
        bit = chosen.randrange(start * 8 * chosen.randrange(2), file.stat().st_size * 8)
        with flipped(file, bit):
            answers = answers_of(table, file.name)
            wrong = [q for q, answer in answers.items() if answer not in (None, right[q])]
            assert not wrong, f"bit {bit} of {file.name}"
            if None in answers.values() or not answers:
                harmful += 1
                assert any(file.name in finding for finding in findings(table)), f"bit {bit}"
    assert harmful, "some bits matter"
    assert answers_of(table, "") == right


def test_a_page_of_a_condition_that_is_passed_over_is_noticed(table: Path) -> None:
    """pyarrow leaves out a page whose header says that it is not a data page."""
    right = answers_of(table, "")
    questions = set()
    for file in sorted(table.rglob("data-*.parquet")):
        group = pq.read_metadata(file).row_group(0)
        chunks = [group.column(place) for place in range(group.num_columns)]
        [start] = [chunk.data_page_offset for chunk in chunks if chunk.path_in_schema == "id"]
        with flipped(file, 8 * (start + 1) + 1):  # the kind: an index page
            answers = answers_of(table, file.name)
        assert all(answer in (None, right[question]) for question, answer in answers.items())
        questions |= {question for question, answer in answers.items() if answer is None}
    assert "rows by key" in questions
