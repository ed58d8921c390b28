"""Paimon and stream_app alter nested columns, write, read and compact in turns."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stream_app
from stream_app.app.cli.main import main
from stream_app.table.opening import open_file_store_table
from tests.support.interop.compacted_tables import compact_fully
from tests.support.interop.every_type import a_table
from tests.support.interop.nested_rows import Rows
from tests.support.jobs.table_writer import TableWriter, by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = (
    "k INT, r ROW<a INT, b STRING, c ROW<d INT, e STRING>>, items ARRAY<ROW<x INT, y STRING>>, "
    "attrs MAP<STRING, ROW<p INT, q STRING>>, counts MAP<STRING, INT>, tags ARRAY<INT>, "
    "deep ARRAY<MAP<INT, ROW<s INT>>>"
)
STEPS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("rename", "r.b", "name"), ("type", "r.a", "BIGINT"), ("add", "r.z", "INT"),
     ("drop", "r.c.e"), ("type", "tags.element", "BIGINT")),
    (("add", "items.element.w", "DOUBLE"), ("rename", "items.element.y", "yy"),
     ("type", "items.element.x", "DECIMAL(12, 2)"), ("add", "deep.element.value.t", "STRING"),
     ("drop", "r.name"), ("add", "r.name", "INT")),
    (("add", "attrs.value.n", "INT"), ("drop", "attrs.value.q"),
     ("type", "attrs.value.p", "STRING"), ("type", "counts.value", "BIGINT"),
     ("add", "r.c.f", "STRING"), ("drop", "items.element.x")),
)  # fmt: skip
OPTIONS = {
    "--add-column": "add", "--change-type": "type", "--rename-column": "rename",
    "--drop-column": "drop",
}  # fmt: skip


def alter(location: str, step: tuple[tuple[str, ...], ...]) -> None:
    words = [
        word
        for kind, *values in step
        for option, name in OPTIONS.items()
        if name == kind
        for word in (option, ("=" if kind == "rename" else " ").join(values))
    ]
    assert main(["alter", location, *words]) == 0


def latest_schema(location: Path | str) -> dict[str, Any]:
    schemas = open_file_store_table(str(location)).schemas
    document = json.loads(Path(schemas.path(schemas.ids()[-1])).read_bytes())
    return {key: document[key] for key in ("fields", "highestFieldId", "options")}


def our_rows(location: Path | str, where: str | None = None) -> list[str]:
    rows: pa.Table = stream_app.open_table(str(location)).read(where=where).read_all()
    return by_content(normal_rows(rows))


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (("k",), {"num-sorted-run.compaction-trigger": "20"}),
        ((), {"bucket": "-1"}),
        (("k",), {"file.format": "orc", "num-sorted-run.compaction-trigger": "20"}),
    ],
)
def test_each_reads_and_compacts_what_the_other_altered(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, seed: int,
    keys: tuple[str, ...], options: dict[str, str],
) -> None:  # fmt: skip
    rng = random.Random(seed)
    location = a_table(tmp_path, COLUMNS, keys, **options).location
    for number, step in enumerate(((), *STEPS)):
        if step and number % 2:
            twin = tmp_path / f"twin{number}.db" / "t"
            shutil.copytree(location, twin)
            paimon_java.alter(twin, *step)
            alter(location, step)
            assert latest_schema(location) == latest_schema(twin)
        elif step:
            paimon_java.alter(location, *step)
        table = open_file_store_table(location)
        rows = Rows(table.schema, ("+I",), rng)
        TableWriter(table, user=f"epoch {number}").write(rows.epoch(9))
        paimon_java.write(location, rows.epoch(3), identifier=100 + number)
        before = our_rows(location)
        assert before == by_content(paimon_java.read(location))
        if "file.format" not in options:
            assert before == by_content(normal_rows(pypaimon.read(location)))
    assert our_rows(location, "r.a >= 1 AND r.c.d IS NOT NULL") == [
        row for row in before if row in our_rows(location, "r.a >= 1") and row in our_rows(
            location, "r.c.d IS NOT NULL")
    ]  # fmt: skip
    shutil.copytree(location, tmp_path / "javas.db" / "t")
    compact_fully(open_file_store_table(location))
    paimon_java.compact(tmp_path / "javas.db" / "t")
    assert our_rows(location) == by_content(paimon_java.read(location)) == before
    assert our_rows(tmp_path / "javas.db" / "t") == before
    sound_report(open_file_store_table(location))


@pytest.mark.parametrize(
    "change",
    [
        ("add", "r.a", "INT"), ("add", "tags.x", "INT"), ("drop", "r.nowhere"),
        ("rename", "r.a", "b"), ("type", "r.a", "BYTES"), ("add", "r.y", "INT NOT NULL"),
        ("type", "r.c", "INT"),
    ],
)  # fmt: skip
def test_alter_refuses_what_java_refuses(
    paimon_java: PaimonJava, tmp_path: Path, change: tuple[str, ...]
) -> None:
    location = a_table(tmp_path, COLUMNS, ("k",)).location
    with pytest.raises(PaimonError):
        paimon_java.alter(location, change)
    assert_refused(location, change)


@pytest.mark.parametrize(
    "change",
    [
        ("drop", "tags.element"), ("rename", "tags.element", "x"), ("add", "counts.key.x", "INT"),
        ("type", "counts.key", "INT"), ("add", "attrs.p", "INT"),
    ],
)  # fmt: skip
def test_alter_refuses_a_change_that_would_break_a_type(
    tmp_path: Path, change: tuple[str, ...]
) -> None:
    """Java makes schemas of them that nothing can read."""
    assert_refused(a_table(tmp_path, COLUMNS, ("k",)).location, change)


def assert_refused(location: str, change: tuple[str, ...]) -> None:
    with pytest.raises(AssertionError):
        alter(location, (change,))
    assert open_file_store_table(location).schemas.ids() == [0]
