"""`inspect compactions` reports the compactions of Paimon's Java beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.inspect.compaction_history import compaction_rows
from stream_app.app.inspect.snapshot_files import BucketFilter
from tests.support.jobs.compacting_table import a_table, rows
from tests.support.jobs.table_writer import TableWriter
from tests.support.judges.paimon_java import PaimonJava

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


def test_compactions_of_java_are_derived_from_the_files(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    """Java merges three flushes, and then we merge two more."""
    options = {"num_sorted_run__compaction_trigger": 2, "snapshot__num_retained__min": 1000}
    table = a_table(tmp_path, bucket=2, write_only="true", num_levels=4, **options)
    writer = TableWriter(table)
    for epoch in range(3):
        writer.write(rows(epoch))
    sizes = _sizes(paimon_java, table.location)
    number = paimon_java.compact(table.location, options={"write-only": False})
    after = _sizes(paimon_java, table.location)
    assert number is not None
    snapshot = table.snapshots.snapshot(number)

    java_compactions = compaction_rows(table)
    assert [(row.snapshot, row.bucket) for row in java_compactions] == [(number, 0), (number, 1)]
    for row in java_compactions:
        assert (row.user, row.reason, row.seconds) == (snapshot.commit_user, None, None)
        assert (row.levels, row.output_level, row.upgraded) == ("0 0 0", 3, 0)
        assert (row.files_in, row.bytes_in) == (3, sum(sizes[row.bucket]))
        assert (row.files_out, row.bytes_out) == (1, sum(after[row.bucket]))

    writer.table = table.with_options({"write-only": "false"})
    writer.restart()
    for epoch in range(3, 5):
        writer.write(rows(epoch))
    writer.commit.compact_due()
    ours = compaction_rows(table)
    assert ours[:2] == java_compactions
    # The first of the two flushes is smaller than what Java made: not worth it, until a run more.
    assert [(row.user, row.bucket, row.levels) for row in ours[2:]] == [
        ("writer", 0, "0 0 3"),
        ("writer", 1, "0 0 3"),
    ]
    assert None not in {row.reason for row in ours[2:]} | {row.seconds for row in ours[2:]}
    assert [row for row in ours if row.bucket == 1] == compaction_rows(
        table, BucketFilter(bucket=1)
    )


def test_files_that_java_moves_up_are_not_read(paimon_java: PaimonJava, tmp_path: Path) -> None:
    """A large file that overlaps no other changes only its level."""
    table = a_table(tmp_path, write_only="true", num_levels=4)
    TableWriter(table).write(rows(0))
    paimon_java.compact(table.location, options={"write-only": False, "target-file-size": "1 b"})
    [row] = compaction_rows(table)
    assert (row.levels, row.output_level, row.upgraded) == ("0", 3, 1)
    assert (row.files_in, row.files_out, row.bytes_in, row.bytes_out) == (0, 0, 0, 0)


def _sizes(paimon_java: PaimonJava, location: str) -> dict[int, list[int]]:
    """Return the sizes of each bucket's live files, in Java's order."""
    sizes: dict[int, list[int]] = {}
    for file in paimon_java.files(location):
        sizes.setdefault(file["bucket"], []).append(file["file_size"])
    return sizes
