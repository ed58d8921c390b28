"""Tables whose key lacks partition columns: Paimon's own assigner does what this writer does."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.cross_partition import CrossPartitionJob, cross_partition_table
from tests.support.paimon_java import PaimonJava
from tests.support.small_table import Change
from tests.support.table_checks import check_chain
from tests.support.table_writer import by_content, read_rows

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

ENGINES: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "deduplicate": ({}, ("+I", "+U", "+U", "-U", "-D")),
    "input": ({"changelog_producer": "input"}, ("+I", "+U", "+U", "-D")),
    "lookup": ({"changelog_producer": "lookup"}, ("+I", "+U", "-D")),
    "vectors": ({"deletion_vectors__enabled": "true"}, ("+I", "+U", "-D")),
    "partial update": ({"merge_engine": "partial-update"}, ("+I", "+U")),
    "partial update, deletes ignored": (
        {"merge_engine": "partial-update", "ignore_delete": "true"},
        ("+I", "+U", "-D"),
    ),
    "sums": (
        {"merge_engine": "aggregation", "fields__v__aggregate_function": "sum"},
        ("+I", "+U", "-U", "-D"),
    ),
    "first row": ({"merge_engine": "first-row"}, ("+I", "+U")),
}


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))


def _changes(chance: random.Random, kinds: tuple[str, ...]) -> list[Change]:
    return [
        (
            chance.choice(kinds),
            {"id": chance.randrange(30), "p": chance.choice("abc"), "v": chance.randrange(100)},
        )
        for _ in range(40)
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_those_of_paimon_in_turns_with_it(
    tmp_path: Path, paimon_java: PaimonJava, seed: int, engine: str
) -> None:
    """Java writes all epochs into one table; into the other one both writers take turns."""
    options, kinds = ENGINES[engine]
    chance = random.Random(seed)
    ours = cross_partition_table(tmp_path / "w.db" / "ours", **options)
    theirs = cross_partition_table(tmp_path / "w.db" / "theirs", **options)
    job = CrossPartitionJob(ours)
    for epoch in range(8):
        changes = _changes(chance, kinds)
        paimon_java.write(theirs.location, _java(changes), identifier=epoch)
        if epoch in (3, 6):
            paimon_java.write(ours.location, _java(changes), identifier=epoch)
        else:
            job.write(*changes)
        expected = by_content(paimon_java.read(theirs.location))
        assert by_content(paimon_java.read(ours.location)) == expected
        assert by_content(read_rows(ours)) == expected
    job.commit.drain()
    assert by_content(paimon_java.read(ours.location)) == expected
    check_chain(ours)


def _java(changes: list[Change]) -> list[tuple[str, dict[str, Any]]]:
    return [(kind, dict(row)) for kind, row in changes]
