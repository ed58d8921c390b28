"""Changelogs that compactions write: Paimon's Java and stream_app tell the same changes.

Two tables get the same epochs. Java writes and compacts the first alone. In the second, Java and
stream_app take turns by chance.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_commit import StreamTableCommit
from tests.interop.test_following import ours, texts
from tests.support.paimon_java import PaimonJava
from tests.support.small_table import Change, write_changes
from tests.support.sound_table import sound_report
from tests.support.table_writer import CompactInCaller, by_content, read_rows

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
COLUMNS = [("k", "INT NOT NULL"), ("p", "STRING"), ("v", "INT"), ("s", "INT"), ("f", "DOUBLE")]
EPOCHS, KEYS = 9, 25

CASES: dict[str, dict[str, Any]] = {
    "lookup": {"changelog-producer": "lookup"},
    "lookup by column": {"changelog-producer": "lookup", "sequence.field": "s"},
    "lookup of changed values": {
        "changelog-producer": "lookup",
        "changelog-producer.row-deduplicate": True,
        "changelog-producer.row-deduplicate-ignore-fields": "s,f",
        "num-sorted-run.compaction-trigger": 3,
    },
    "deletion vectors": {"changelog-producer": "lookup", "deletion-vectors.enabled": True},
    "deletion vectors of 64 bits": {
        "changelog-producer": "lookup",
        "deletion-vectors.enabled": True,
        "deletion-vectors.bitmap64": True,
        "sequence.field": "s",
        "num-sorted-run.compaction-trigger": 3,
    },
    "lookup of partial updates": {
        "changelog-producer": "lookup",
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": True,
        "num-sorted-run.compaction-trigger": 4,
    },
    "lookup of sums": {
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "fields.f.aggregate-function": "max",
        "aggregation.remove-record-on-delete": True,
    },
    "lookup of sums that undo": {
        "changelog-producer": "lookup",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "num-sorted-run.compaction-trigger": 3,
    },
    "deletion vectors of sums that undo": {
        "changelog-producer": "lookup",
        "deletion-vectors.enabled": True,
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
    },
    "lookup of groups": {
        "changelog-producer": "lookup",
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "v,p",
    },
    "deletion vectors of sums": {
        "changelog-producer": "lookup",
        "deletion-vectors.enabled": True,
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": True,
    },
    "lookup of first rows": {
        "changelog-producer": "lookup",
        "merge-engine": "first-row",
        "ignore-delete": True,
    },
    "full compaction of sums": {
        "changelog-producer": "full-compaction",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "aggregation.remove-record-on-delete": True,
    },
    "full compaction": {"changelog-producer": "full-compaction"},
    "full compaction that looks up": {
        "changelog-producer": "full-compaction",
        "force-lookup": True,
        "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": True,
    },
    "full compaction of changed values": {
        "changelog-producer": "full-compaction",
        "changelog-producer.row-deduplicate": True,
        "sequence.field": "s",
    },
}


def epoch_of(chance: random.Random, epoch: int, case: str) -> list[Change]:
    """Changes of some keys, several of one key at times.

    Deletes have values where they undo them. Elsewhere they have none: Paimon adds to the values of
    a delete that is still there, and how long it is depends on the sizes of files.
    """
    changes: list[Change] = []
    for _ in range(chance.choice((1, 4, 30))):
        kind = chance.choice(("+I", "+U", "+U", "-D"))
        values = {"v": chance.randrange(3), "s": chance.randrange(epoch, epoch + 4), "f": 0.5}
        row = {"k": chance.randrange(KEYS), "p": chance.choice("ab"), **values}
        if kind == "-D" and "undo" not in case:
            row |= {"p": None, "v": None, "f": None}
        if "groups" in case and (kind == "-D" or chance.random() < 0.5):
            row["s"] = None
        changes.append((kind, row))
    return changes


def write_ours(table: FileStoreTable, changes: Sequence[Change], epoch: int) -> None:
    """One epoch; its compactions are published with it, as the options say."""
    commit = StreamTableCommit(table, "ours", CompactInCaller(table))
    first = commit.follow_and_wait()
    commit.commit_epoch(epoch, write_changes(table, changes, first))


def write_java(java: PaimonJava, path: Path, changes: Sequence[Change], epoch: int) -> None:
    java.write(path, changes, identifier=epoch, commit_user="java")
    if stream_app.open_table(str(path)).store.options.changelog_producer == "full-compaction":
        java.compact(path)


def told(java: PaimonJava, path: Path) -> list[list[str]]:
    return [texts(plan.changes) for plan in java.changelog(path) if plan.changes]


@pytest.mark.parametrize("case", CASES)
def test_both_tell_the_same_changes(paimon_java: PaimonJava, tmp_path: Path, case: str) -> None:
    chance = random.Random(f"{case} 7")
    paths = [tmp_path / "db.db" / name for name in ("java", "turns")]
    for path in paths:
        options = {"bucket": 1, "target-file-size": "2 kb", **CASES[case]}
        paimon_java.create(path, COLUMNS, primary_keys=["k"], options=options)
    alone, turns = paths
    table = stream_app.open_table(str(turns)).store
    for epoch in range(EPOCHS):
        changes = epoch_of(chance, epoch, case)
        write_java(paimon_java, alone, changes, epoch)
        if chance.random() < 0.3:
            write_java(paimon_java, turns, changes, epoch)
        else:
            write_ours(table, changes, epoch)
    assert told(paimon_java, turns) == told(paimon_java, alone)
    followed = ours(stream_app.PaimonTable(table).changelog(snapshot=1))
    assert [changes for changes in followed.values() if changes] == told(paimon_java, alone)
    rows = by_content(paimon_java.read(alone))
    assert by_content(paimon_java.read(turns)) == by_content(read_rows(table)) == rows
    assert bool(sound_report(table).replayed) == ("ignore-fields" not in str(CASES[case]))


@pytest.mark.parametrize(("before", "after"), [(float("nan"), float("nan")), (0.0, -0.0)])
def test_floats_of_an_update_are_compared_as_numbers(
    paimon_java: PaimonJava, tmp_path: Path, before: float, after: float
) -> None:
    paths = [tmp_path / "db.db" / name for name in ("java", "ours")]
    options = {
        "bucket": 1, "changelog-producer": "lookup", "changelog-producer.row-deduplicate": True,
    }  # fmt: skip
    columns = [("k", "INT NOT NULL"), ("f", "DOUBLE")]
    for path in paths:
        paimon_java.create(path, columns, primary_keys=["k"], options=options)
    alone, own = paths
    table = stream_app.open_table(str(own)).store
    for epoch, value in enumerate((before, after)):
        changes: list[Change] = [("+I", {"k": 1, "f": value})]
        write_java(paimon_java, alone, changes, epoch)
        write_ours(table, changes, epoch)
    assert told(paimon_java, own) == told(paimon_java, alone)
