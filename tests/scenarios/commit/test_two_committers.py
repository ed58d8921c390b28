"""Each of two committers notices before a commit what the other one has committed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CommitConflictError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import CommitKind
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import CompactLater
from tests.support.tables.small_table import SmallTable, small_table, write_changes


def row(key: int, value: str) -> tuple[str, dict[str, Any]]:
    return "+I", {"k": key, "v": value}


@pytest.mark.parametrize("where", ["in an epoch", "in an idle commit"])
def test_a_compaction_that_another_writer_overtook_is_dropped(tmp_path: Path, where: str) -> None:
    """Both writers merge the same files into the highest level, and only the first may commit."""
    options: dict[str, Any] = {"num_sorted_run__compaction_trigger": 2}
    slow = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",), **options)
    later = CompactLater(slow.table)
    slow.committer = StreamTableCommit(slow.table, "slow", later)
    slow.commit(row(1, "a"), row(5, "a"))
    slow.commit(row(1, "b"), row(5, "b"))
    assert len(later.waiting) == 1

    quick = SmallTable(slow.table)
    quick.commit(row(3, "c"))
    quick.compact()
    snapshots = slow.table.snapshots
    latest = snapshots.latest_id()
    assert latest is not None
    later.run()
    if where == "in an epoch":
        # It follows the other one when it begins, and commits on top of what it has seen.
        slow.commit(row(7, "d"))
        assert snapshots.latest_id() == latest + 1
    else:
        assert slow.committer.commit_idle() is None
        assert snapshots.latest_id() == latest
    # The levels are the table's again: what is due is found in them.
    assert slow.committer.coordinator.back_pressure.sorted_run_counts() == {
        bucket: len(runs) for bucket, runs in _runs(slow.table).items()
    }


def _runs(table: FileStoreTable) -> dict[tuple[bytes, int], set[object]]:
    runs: dict[tuple[bytes, int], set[object]] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        file = entry.file
        run = file.file_name if file.level == 0 else file.level
        runs.setdefault((entry.partition, entry.bucket), set()).add(run)
    return runs


def test_a_twin_with_the_same_checkpoint_does_not_write_an_epoch_again(tmp_path: Path) -> None:
    original = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    original.commit(row(1, "a"))
    twin = SmallTable(original.table)
    twin.epoch = 1
    # Both have found that epoch 1 is new; then both write it.
    first = twin.committer.follow_and_wait()
    changes = write_changes(twin.table, [row(2, "b")], first)
    original.commit(row(2, "b"))
    with pytest.raises(CommitConflictError, match="same checkpoint: it made snapshot 2 "):
        twin.committer.commit_epoch(1, changes)
    file_names = {file.name for file in Path(original.path).rglob("data-*")}
    assert file_names == {
        entry.file.file_name
        for entry in FileStoreScan(original.table).live(original.table.snapshots.latest())
    }, "files that no snapshot names are gone"
    assert original.table.snapshots.latest_id() == 2
    with pytest.raises(CommitConflictError, match="another process works with the same checkpoint"):
        twin.committer.follow_and_wait()


def test_a_twin_does_not_commit_compactions_under_an_overtaken_identifier(tmp_path: Path) -> None:
    """They would hide the later epoch, and the job would write it again after a restart."""
    original = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    for epoch in range(3):
        original.commit(row(epoch, "a"))
    twin = SmallTable(original.table)
    twin.epoch = 3
    commit = FileStoreCommit(twin.table, twin.committer.state.commit_history)
    old = next(iter(FileStoreScan(original.table).live(original.table.snapshots.latest())))
    new = replace(old.file, file_name="data-new-0.parquet", level=5)
    change = BucketChange(
        partition=old.partition,
        bucket=old.bucket,
        removed_files=(old.file,),
        added_files=(new,),
    )
    compaction = ManifestCommittable(identifier=2, changes=(change,))
    original.commit(row(3, "d"))
    outcome = commit.commit_compactions(compaction, are_overtaken=False)
    assert outcome.snapshot is None
    assert outcome.conflict is not None
    assert "it made snapshot 4 (APPEND, identifier 3) for commit user tester" in outcome.conflict
    assert original.table.snapshots.latest_id() == 4


def test_a_twin_of_a_job_that_has_not_committed_yet(tmp_path: Path) -> None:
    original = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    twin = SmallTable(original.table)
    original.commit(row(1, "a"))
    with pytest.raises(CommitConflictError, match="it made snapshot 1 "):
        twin.commit(row(1, "a"))


def test_a_twin_that_only_compacts_is_noticed_too(tmp_path: Path) -> None:
    """The twin has committed no epoch, so the job sees only a snapshot that it did not write."""
    options: dict[str, Any] = {"num_sorted_run__compaction_trigger": 2}
    original = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",), **options)
    original.commit(row(1, "a"))
    twin = SmallTable(original.table)
    twin.epoch = 1
    original.commit(row(1, "b"))
    original.commit(row(1, "c"))  # its compactions wait to be published
    third = SmallTable(original.table)
    third.epoch = 3
    original.compact()
    latest = original.table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT
    assert latest.commit_identifier == third.committer.last_identifier
    with pytest.raises(CommitConflictError, match=r"it made snapshot 5 \(COMPACT, identifier 2\)"):
        third.commit(row(2, "d"))
    with pytest.raises(CommitConflictError) as raised:
        twin.committer.commit_epoch(1, [])
    assert "run one job for each checkpoint" in raised.value.fix
    assert original.table.snapshots.latest_id() == latest.snapshot_id
    original.commit(row(2, "d"))  # the one that nobody has disturbed goes on
    next_process = SmallTable(original.table)
    next_process.epoch = 4
    next_process.commit(row(3, "e"))


def test_an_epoch_that_is_left_out_is_logged_with_both_identifiers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    original = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    for number in range(3):
        original.commit(row(number, "a"))
    with caplog.at_level("INFO"):
        again = SmallTable(original.table)
        assert again.committer.state.is_committed(1)
        assert not again.committer.state.is_committed(3)
    message = "epoch 1 is left out: the newest commit of user tester has identifier 2"
    assert [record.getMessage() for record in caplog.records] == [message]
