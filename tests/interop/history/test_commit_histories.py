"""Paimon's own library reads histories of appends, compactions, drops and overwrites."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.histories.random_history import HISTORY_COLUMNS, HISTORY_KEYS, RandomHistory
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import small_table

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]


def test_paimon_reads_and_goes_on_with_a_history(
    paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    """Paimon reads old and new versions, expires all but the latest, compacts and drops."""
    rng = random.Random(seed)
    table = small_table(
        tmp_path / "db.db" / "t", HISTORY_COLUMNS, *HISTORY_KEYS,
        bucket=2, num_sorted_run__compaction_trigger=2, manifest__merge_min_count=3,
        manifest__target_file_size="3 kb", manifest__full_compaction_threshold_size="9 kb",
    ).table  # fmt: skip
    history = RandomHistory(table, rng)
    versions: dict[int, dict[tuple[str, int], str]] = {}
    for _ in range(25):
        history.step()
        latest = table.snapshots.latest_id()
        if latest is not None:
            versions[latest] = dict(history.rows)
    java_rows = paimon_java.read(table.location)
    assert history.found_rows(java_rows) == history.rows
    for number in rng.sample(sorted(versions), 3):
        rows = paimon_java.read(table.location, snapshot=number)
        assert history.found_rows(rows) == versions[number]
    for java_snapshot in paimon_java.snapshots(table.location):
        ours = table.snapshots.snapshot(java_snapshot["id"])
        assert java_snapshot["commitKind"] == ours.commit_kind.value
        assert java_snapshot["totalRecordCount"] == ours.total_record_count
        live = paimon_java.files(table.location, snapshot=java_snapshot["id"])
        assert sum(file["row_count"] for file in live) == ours.total_record_count
    # Expiry deletes the files that deltas remove: a wrong delta would delete live files.
    paimon_java.expire(table.location)
    assert history.found_rows(paimon_java.read(table.location)) == history.rows
    paimon_java.compact(table.location)
    assert history.found_rows(paimon_java.read(table.location)) == history.rows
    # stream_app continues the table that Paimon has compacted.
    for _ in range(5):
        history.restart()
        history.step()
    assert history.found_rows(paimon_java.read(table.location)) == history.rows
