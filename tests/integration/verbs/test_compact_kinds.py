"""``stream-app compact`` on kinds of keyed tables does what Paimon's Java does with the same files.

Java alone writes two tables and compacts nothing. Then the command compacts one, Java the other.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import stream_app
from tests.support.jobs.ingest_server import IngestServer
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.spark, pytest.mark.java, pytest.mark.slow]
COLUMNS = [("k", "INT NOT NULL"), ("p", "STRING"), ("v", "BIGINT")]
SUMS = {
    "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
    "aggregation.remove-record-on-delete": True,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "sums by lookup": {"bucket": 2, "changelog-producer": "lookup", **SUMS},
    "vectors in buckets as keys come": {
        "bucket": -1, "dynamic-bucket.target-row-num": 40, "deletion-vectors.enabled": True,
        "changelog-producer": "lookup",
    },
    "first rows": {
        "bucket": 1, "merge-engine": "first-row", "changelog-producer": "lookup",
        "ignore-delete": True,
    },
    "parts by full compaction": {
        "bucket": 1, "changelog-producer": "full-compaction", "merge-engine": "partial-update",
        "partial-update.remove-record-on-delete": True,
    },
    "a key without the partition": {"bucket": -1, "changelog-producer": "lookup", "across": True},
}  # fmt: skip


def some_changes(chance: random.Random) -> list[Change]:
    """Return changes of some of 100 keys, most of which stay in one partition."""
    changes: list[Change] = []
    for k in chance.sample(range(100), 60):
        kind = "-D" if chance.random() < 0.2 else "+I"
        changes.append((kind, {"k": k, "p": chance.choice("ab"), "v": chance.randrange(9)}))
    return changes


def java_changes(java: PaimonJava, path: Path) -> list[str]:
    """All changes, sorted: which bucket comes first is Spark's choice."""
    plans = java.changelog(path)
    return by_content({"": kind, **row} for plan in plans for kind, row in plan.changes)


def files(java: PaimonJava, path: Path) -> list[tuple[int, int, int]]:
    """Bucket, level and rows of each file."""
    return sorted((f["bucket"], f["level"], f["row_count"]) for f in java.files(path))


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_compacts_as_java_does(
    ingest_server: IngestServer, paimon_java: PaimonJava, tmp_path: Path, kind: str
) -> None:
    options, chance = dict(KINDS[kind]), random.Random(kind)
    partitions = ["p"] if options.pop("across", False) else []
    theirs, ours = (tmp_path / "db.db" / name for name in ("theirs", "ours"))
    for path in (theirs, ours):
        paimon_java.create(
            path, COLUMNS, primary_keys=["k"], partition_keys=partitions, options=options
        )
    for turn in range(1 if partitions else 2):  # Paimon's assigner of partitions is slow to start
        for epoch in range(3 * turn, 3 * turn + 3):
            changes = some_changes(chance)
            for path in (theirs, ours):
                paimon_java.write(path, changes, identifier=epoch, options={"write-only": True})
        paimon_java.compact(theirs)
        result = ingest_server.compact(ours)
        assert result.code == 0, result.output
        assert "error" not in result.output
        assert java_changes(paimon_java, ours) == java_changes(paimon_java, theirs) != []
        table = stream_app.open_table(str(ours)).table
        rows = by_content(paimon_java.read(theirs))
        assert by_content(read_rows(table)) == by_content(paimon_java.read(ours)) == rows
        assert files(paimon_java, ours) == files(paimon_java, theirs)
    assert sound_report(table).file_count
