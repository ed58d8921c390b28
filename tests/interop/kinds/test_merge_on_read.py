"""Paimon 2 and stream_app read level 0 with ``deletion-vectors.merge-on-read`` alike.

Paimon 1.4 does not know the option: its Java compacts such tables, and reads them without level 0.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import stream_app
from tests.simulation.model.merging import Record, kinds_of, merge_of, merged
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import Change, SmallTable, small_table
from tests.support.tables.sound_table import sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
MERGES = {"deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}
ENGINES: Mapping[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
}


def table_of(path: Path, **options: str) -> SmallTable:
    all_options = {**MERGES, "bucket": "2", "write-only": "true", **options}
    return small_table(path, "k INT, v BIGINT, p STRING, t STRING", ["k"], **all_options)


def some_changes(
    rows: dict[int, Record], options: Mapping[str, str], rng: random.Random
) -> list[Change]:
    changes: list[Change] = []
    for _ in range(15):
        kind = rng.choice(kinds_of(options, has_key=True))
        row: dict[str, Any] = {
            **{"k": rng.randrange(12), "v": rng.randrange(9)},
            **{"p": rng.choice("xyz"), "t": None},
        }
        if kind in ("-D", "-U"):
            row = rows.get(row["k"], row)
        changes.append((kind, row))
        new = merged(merge_of(options), rows.pop(row["k"], None), [(kind, row)])
        if new is not None:
            rows[row["k"]] = new
    return changes


@pytest.mark.java
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_rows_of_level_0_are_merged_with_those_above(
    tmp_path: Path, paimon_java: PaimonJava, pypaimon: PyPaimonReader, engine: str, producer: str
) -> None:
    """Others compact now and then, so that rows of level 0 replace some that nobody has marked."""
    options = {**ENGINES[engine], "changelog-producer": producer}
    small = table_of(tmp_path / "db.db" / "t", **options)
    rows: dict[int, Record] = {}
    rng = random.Random(engine)
    for epoch in range(6):
        small.commit(*some_changes(rows, options, rng))
        expected = by_content(rows.values())
        assert by_content(read_rows(small.table)) == expected
        assert by_content(normal_rows(pypaimon.read(small.path))) == expected
        assert by_content(normal_rows(pypaimon.read_by_rust(small.path))) == expected
        if epoch in (1, 3):
            paimon_java.compact(small.path)
            assert by_content(paimon_java.read(small.path)) == expected
            assert by_content(read_rows(small.table)) == expected
    assert sound_report(small.table).file_count


def test_versions_are_compared_with_their_rows_of_level_0(tmp_path: Path) -> None:
    small = table_of(tmp_path / "db.db" / "t")
    same = {"p": None, "t": None}
    small.commit(*(("+I", {"k": k, "v": 1, **same}) for k in (1, 2)))
    small.commit(("+U", {"k": 1, "v": 2, **same}), ("-D", {"k": 2, "v": 1, **same}))
    table = stream_app.open_table(small.path)
    assert table.read().read_all().to_pylist() == [{"k": 1, "v": 2, **same}]
    changes = table.read_incremental((1, 2), scan_mode="diff").read_all().to_pylist()
    assert changes == [{"k": 1, "v": 2, **same}]


def test_the_option_needs_vectors_to_matter(tmp_path: Path) -> None:
    """A table of ``first-row`` hides level 0 all the same, as in Paimon."""
    options = {"deletion-vectors.enabled": "false", "merge-engine": "first-row"}
    small = table_of(tmp_path / "db.db" / "t", **options)
    small.commit(("+I", {"k": 1, "v": 1, "p": None, "t": None}))
    assert read_rows(small.table) == []
