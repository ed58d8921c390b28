"""Paimon's assigner and stream_app place the rows of keys that lack partition columns alike."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import findings_of

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

ADDS, ALL = ("+I", "+U"), ("+I", "+U", "+U", "-U", "-D")
ENGINES: dict[str, tuple[Mapping[str, str], Sequence[str]]] = {
    "deduplicate": ({}, ALL),
    "a changelog of all changes": ({"changelog_producer": "input"}, ADDS),
    "vectors": ({"deletion_vectors__enabled": "true", "changelog_producer": "lookup"}, ALL),
    # Of rows that go to the partition of an older one, Paimon forgets the kind: a delete adds.
    "partial update": ({"merge_engine": "partial-update"}, ADDS),
    "sums": ({"merge_engine": "aggregation", "fields__v__aggregate_function": "sum"}, ADDS),
    "first row": ({"merge_engine": "first-row"}, ADDS),
}
EPOCHS, OF_JAVA = 4, (2,)


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "disk"))


def _changes(chance: random.Random, kinds: Sequence[str]) -> list[Change]:
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
    retention = {"snapshot__num_retained__min": "100", "snapshot__num_retained__max": "200"}
    ours = cross_partition_table(tmp_path / "w.db" / "ours", **options, **retention)
    theirs = cross_partition_table(tmp_path / "w.db" / "theirs", **options, **retention)
    job = CrossPartitionJob(ours)
    for epoch in range(EPOCHS):
        changes = _changes(chance, kinds)
        paimon_java.write(theirs.location, _java(changes), identifier=epoch)
        if epoch in OF_JAVA:
            paimon_java.write(ours.location, _java(changes), identifier=epoch)
        else:
            job.write(*changes)
        expected = by_content(paimon_java.read(theirs.location))
        assert by_content(paimon_java.read(ours.location)) == expected
        assert by_content(read_rows(ours)) == expected
    job.commit.compact_due()
    assert by_content(paimon_java.read(ours.location)) == expected
    if engine == "a changelog of all changes":
        assert _changelog_of(paimon_java, ours.location) == _changelog_of(
            paimon_java, theirs.location
        )
    assert findings_of(ours) == []


def _changelog_of(paimon_java: PaimonJava, location: str) -> list[list[str]]:
    """The changes of each epoch; those of an update's older partition among them."""
    plans = paimon_java.changelog(location)
    return [by_content({"": kind, **row} for kind, row in plan.changes) for plan in plans]


def _java(changes: list[Change]) -> list[tuple[str, dict[str, Any]]]:
    return [(kind, dict(row)) for kind, row in changes]
