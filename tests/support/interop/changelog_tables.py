"""Changes that Java and our writer write alike, and their changelogs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import stream_app
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from tests.support.interop.followed_rows import texts
from tests.support.jobs.table_writer import CompactInCaller
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change, write_changes

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
    """Return changes of some keys, several of one key at times.

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
    """Write one epoch, with which its compactions are published as the options say."""
    commit = StreamTableCommit(table, "ours", CompactInCaller(table))
    first = commit.follow_and_wait()
    commit.commit_epoch(epoch, write_changes(table, changes, first))


def write_java(java: PaimonJava, path: Path, changes: Sequence[Change], epoch: int) -> None:
    java.write(path, changes, identifier=epoch, commit_user="java")
    if stream_app.open_table(str(path)).table.options.changelog_producer == "full-compaction":
        java.compact(path)


def java_changes(java: PaimonJava, path: Path) -> list[list[str]]:
    return [texts(plan.changes) for plan in java.changelog(path) if plan.changes]
