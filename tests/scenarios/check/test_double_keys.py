"""`check` finds keys with two rows in tables whose readers do not merge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stream_app.model.files.manifest_entry import FileKind
from stream_app.model.finding import FindingKind
from stream_app.table.check.doubled_keys import cross_partition_findings
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.tables.damaged_table import Damage, set_value
from tests.support.tables.small_table import SmallTable, small_table
from tests.support.tables.sound_table import findings_of, sound_report

pytestmark = pytest.mark.usefixtures("unsynced")


def a_table(folder: Path, **options: Any) -> SmallTable:
    """A large level, and above level 0 a small one: two of its keys were in the large one."""
    small = small_table(
        folder / "db.db" / "t", "k INT, s INT", ("k",), num_sorted_run__compaction_trigger=3,
        **options,
    )  # fmt: skip
    small.commit(*(("+I", {"k": k, "s": 0}) for k in range(0, 10_000, 2)))
    small.commit(*(("+I", {"k": k, "s": 1}) for k in (7, 8, 4000, 9001)))
    return small


@pytest.mark.parametrize("sequence", ["", "s"])
def test_rows_whose_vectors_are_lost_are_double(tmp_path: Path, sequence: str) -> None:
    small = a_table(tmp_path, deletion_vectors__enabled="true", sequence__field=sequence)
    sound_report(small.table)
    Damage(small.table).index([])
    [finding] = (
        finding for finding in findings_of(small.table) if finding.kind is FindingKind.DOUBLE_KEYS
    )
    assert "2 keys have more than one row above level 0, such as k = 8;" in finding.problem
    assert finding.where.endswith("bucket-0")
    assert "compact --full" in finding.fix


def test_first_rows_on_two_levels_are_double(tmp_path: Path) -> None:
    small = a_table(tmp_path, merge_engine="first-row")
    sound_report(small.table)
    damage = Damage(small.table)
    live = FileStoreScan(small.table).live(damage.latest)
    assert len({entry.file.level for entry in live}) == 2, "else nothing was looked up"
    damage.delta(
        lambda entries: [
            damage.rewritten(entry, lambda rows: set_value(rows, "k", 8))
            if entry.kind is FileKind.ADD
            else entry
            for entry in entries
        ]
    )
    [finding] = (
        finding for finding in findings_of(small.table) if finding.kind is FindingKind.DOUBLE_KEYS
    )
    assert "1 keys have more than one row above level 0, such as k = 8;" in finding.problem


PLACES = (
    r"^2 keys have rows in several places of the table, such as id = [34] in "
    r"p=a/bucket-\d and p=b/bucket-\d; readers show them all$"
)
LOOKED_UP = {"partition_lookup": "true", "bucket": "2", "keys": "id,p"}
VECTORS = {"deletion_vectors__enabled": "true"}


@pytest.mark.parametrize("options", [{}, LOOKED_UP, VECTORS], ids=["", "fixed buckets", "vectors"])
def test_a_key_with_rows_in_two_partitions_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, str]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    job = CrossPartitionJob(cross_partition_table(tmp_path / "t", **options))
    job.write(*(("+I", {"id": key, "p": "a", "v": 1}) for key in range(20)))
    job.write(("+U", {"id": 7, "p": "b", "v": 2}), ("-D", {"id": 8, "p": "a", "v": 1}))
    job.write(("+U", {"id": 8, "p": "c", "v": 3}))
    sound_report(job.table)
    job.commit.compact_due()
    sound_report(job.table)
    index = 0 if not options else 1
    job.write_into(index, *(("+I", {"id": key, "p": "b", "v": 4}) for key in (3, 4)))
    [finding] = (
        finding for finding in findings_of(job.table) if finding.kind is FindingKind.DOUBLE_KEYS
    )
    latest = job.table.snapshots.latest()
    assert latest is not None
    [by_parts] = cross_partition_findings(job.table, latest, part_row_count=3)
    for double in (finding, by_parts):
        assert re.search(PLACES, double.problem)
        assert double.fix
