"""The same epochs in the same order leave the same files, whether Java writes or stream_app.

Every record of every manifest is compared: levels, rows, deletes, key ranges, sequence numbers and
statistics of data and changelog files, and the rows that deletion vectors mark.

Which files a compaction takes depends on their sizes: a run joins while it is at most 1 % larger
than those before it. Files of few rows differ in size by their footers, so an epoch has
50 rows or more, of 100 bytes that cannot be compressed. Then both pick the same files.

What may differ: names, sizes and times of files.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.interop.changelog_tables import CASES as PRODUCERS
from tests.support.interop.changelog_tables import COLUMNS, write_java
from tests.support.jobs.table_writer import CompactInCaller
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import Change, write_changes

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
EPOCHS = 6
ALIKE = {"lookup by column", "lookup of sums that undo", "deletion vectors of sums"}
"""Cases that pick files as others do."""
AT_START = {"full compaction that looks up"}
"""Each epoch here begins with a start. A job then compacts what waits for that; Java does not."""
CASES: dict[str, dict[str, Any]] = {
    "no changelog": {},
    "all changes": {"changelog-producer": "input", "num-sorted-run.compaction-trigger": 3},
    "sums": {
        "merge-engine": "aggregation", "fields.v.aggregate-function": "sum",
        "num-sorted-run.compaction-trigger": 3,
    },
    **{name: PRODUCERS[name] for name in PRODUCERS if name not in ALIKE | AT_START},
}  # fmt: skip


def some_changes(chance: random.Random, epoch: int, case: str) -> list[Change]:
    changes: list[Change] = []
    for _ in range(chance.choice((50, 100, 400))):
        kind = chance.choice(("+I", "+U", "+U", "-D"))
        row = {
            "k": chance.randrange(1000), "p": chance.choice("ab"), "v": chance.randrange(3),
            "s": chance.randrange(epoch, epoch + 4), "f": 0.5, "t": f"{chance.getrandbits(800):x}",
        }  # fmt: skip
        if "groups" in case and (kind == "-D" or chance.random() < 0.5):
            row["s"] = None
        changes.append((kind, row))
    return changes


def write_ours(table: FileStoreTable, changes: list[Change], epoch: int) -> None:
    commit = StreamTableCommit(table, "ours", CompactInCaller(table))
    commit.commit_epoch(epoch, write_changes(table, changes, commit.follow_and_wait()))
    commit.compact_due()


def records(entries: Iterable[ManifestEntry]) -> list[str]:
    """Return the entries of manifests, without the fields that differ between writers."""
    return sorted(
        repr(
            replace(entry, file=replace(entry.file, file_name="", file_size=0, creation_time_ms=0))
        )
        for entry in entries
    )


def marked_rows(table: FileStoreTable, snapshot: Snapshot) -> list[str]:
    """The rows that vectors mark, by file."""
    vectors = deletion_vectors(table, snapshot)
    return sorted(
        f"{records([entry])} {vectors[place][entry.file.file_name].positions().tolist()}"
        for entry in FileStoreScan(table).live(snapshot)
        if entry.file.file_name in vectors.get(place := entry.bucket_id, {})
    )


def story(table: FileStoreTable) -> list[dict[str, Any]]:
    """Each snapshot, with all that it adds and holds."""
    scan, lines = FileStoreScan(table), []
    for number in table.snapshots.ids():
        snapshot = table.snapshots.snapshot(number)
        lines.append(
            {
                "kind": snapshot.commit_kind,
                "counts": (
                    snapshot.total_record_count,
                    snapshot.delta_record_count,
                    snapshot.changelog_record_count or 0,
                ),
                "manifests": [
                    replace(manifest, file_name="", file_size=0)
                    for manifest in table.manifests.read_list(snapshot.delta_manifest_list)
                ],
                "delta": records(scan.delta(snapshot)),
                "changelog": records(scan.changelog(snapshot)),
                "live": records(scan.live(snapshot)),
                "marked": marked_rows(table, snapshot),
            }
        )
    return lines


@pytest.mark.parametrize("case", CASES)
def test_java_and_we_leave_the_same_files(
    paimon_java: PaimonJava, tmp_path: Path, case: str
) -> None:
    chance = random.Random(f"{case} files")
    theirs, ours = (tmp_path / "db.db" / name for name in ("theirs", "ours"))
    for path in (theirs, ours):
        paimon_java.create(
            path, [*COLUMNS, ("t", "STRING")], primary_keys=["k"],
            options={"bucket": 1, **CASES[case]},
        )  # fmt: skip
    table = stream_app.open_table(str(ours)).table
    for epoch in range(EPOCHS):
        changes = some_changes(chance, epoch, case)
        write_java(paimon_java, theirs, changes, epoch)
        write_ours(table, changes, epoch)
    expected = story(stream_app.open_table(str(theirs)).table)
    for state, expected_state in zip(story(table), expected, strict=True):
        assert state == expected_state
    assert any(snapshot["kind"] is CommitKind.COMPACT for snapshot in expected)
    assert any(snapshot["marked"] for snapshot in expected) == ("vectors" in case)
