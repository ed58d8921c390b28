"""`stream-app check` finds nothing in sound tables of ours and of Java's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stream_app.table.opening import open_file_store_table
from tests.support.histories.random_changes import RandomChanges
from tests.support.histories.random_shapes import SHAPES, a_table
from tests.support.jobs.table_writer import TableWriter
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
JAVA_TABLES = Path(__file__).parents[2] / "fixtures" / "java_tables" / "java.db"


@pytest.mark.parametrize(
    "name",
    [
        "changelog",
        "partitions",
        "thin",
        "every key type",
        "one bucket",
        "sequence field",
        "ignore delete",
        "no levels between",
    ],
)
def test_our_tables_are_sound(tmp_path: Path, seed: int, name: str) -> None:
    shape = SHAPES[name]
    writer = TableWriter(a_table(tmp_path, shape))
    changes = RandomChanges(writer.table.schema, random.Random(seed), deletes=shape.deletes)
    for _ in range(4):
        writer.write(changes.epoch(shape.rows))
    writer.commit.compact_due()
    report = sound_report(writer.table)
    assert [text[: len("snapshots 1 to")] for text in report.replayed_changes] == ["snapshots 1 to"]
    assert len(report.unchecked_parts) == (name == "sequence field")


@pytest.mark.parametrize("path", sorted(JAVA_TABLES.iterdir()), ids=lambda path: path.name)
def test_javas_tables_are_sound(path: Path) -> None:
    assert sound_report(open_file_store_table(str(path))).replayed_changes
