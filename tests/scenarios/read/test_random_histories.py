"""Snapshots of random histories agree with their files, and their rows with a model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from stream_app.table.file_store_table import FileStoreTable
from tests.support.histories.random_history import (
    HISTORY_COLUMNS,
    HISTORY_KEYS,
    RandomHistory,
    recount,
)
from tests.support.jobs.table_writer import read_rows
from tests.support.tables.small_table import small_table
from tests.support.tables.snapshot_chain import check_chain, files_on_disk

pytestmark = pytest.mark.usefixtures("unsynced")
STEPS = 30


def a_table(folder: Path, rng: random.Random) -> FileStoreTable:
    """Manifests are merged and left out after a few commits already."""
    options: dict[str, Any] = {
        "bucket": rng.choice([1, 2]),
        "num_sorted_run__compaction_trigger": rng.choice([2, 3, 5]),
        "changelog_producer": rng.choice(["none", "input"]),
        "manifest__merge_min_count": rng.choice([2, 3, 30]),
        "manifest__target_file_size": rng.choice(["3 kb", "8 mb"]),
        "manifest__full_compaction_threshold_size": rng.choice(["5 kb", "20 kb", "16 mb"]),
    }
    return small_table(folder / "db.db" / "t", HISTORY_COLUMNS, *HISTORY_KEYS, **options).table


@pytest.mark.parametrize("number", range(6))
def test_snapshots_count_the_rows_that_the_table_has(
    tmp_path: Path, seed: int, number: int
) -> None:
    rng = random.Random(seed * 100 + number)
    table = a_table(tmp_path, rng)
    history = RandomHistory(table, rng)
    steps = []
    for _ in range(STEPS):
        steps.append(history.step())
        latest = table.snapshots.latest()
        if latest is None:
            continue
        assert history.found_rows(read_rows(table)) == history.rows, steps
        recount(table, latest)
        assert latest.watermark == history.watermark, steps
    snapshots = check_chain(table)
    list_names = {
        name
        for snapshot in snapshots
        for name in (
            snapshot.base_manifest_list,
            snapshot.delta_manifest_list,
            snapshot.changelog_manifest_list,
        )
        if name
    }
    assert files_on_disk(table, "manifest-list-") == list_names
    manifests = {meta.file_name for name in list_names for meta in table.manifests.read_list(name)}
    assert files_on_disk(table, "manifest-") - list_names == manifests, "nothing is left behind"
