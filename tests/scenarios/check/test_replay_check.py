"""`check` finds changes that do not lead to the table's rows, from whichever version it starts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stream_app
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import CommitKind
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.opening import open_branch, open_file_store_table
from stream_app.table.overwrite.postponed_move import move_postponed
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.jobs.table_writer import TableWriter, read_rows
from tests.support.tables.damaged_table import Damage, set_value
from tests.support.tables.deleted_rows import delete_some
from tests.support.tables.expiring_table import give_tag, make_branch
from tests.support.tables.small_table import (
    Change,
    CompactHere,
    SmallTable,
    SteppingClock,
    small_table,
    write_changes,
)
from tests.support.tables.sound_table import findings_of, kinds_in, sound_report

pytestmark = pytest.mark.usefixtures("unsynced")
KEEPS_CHANGELOGS = {"changelog_producer": "input", "changelog__num_retained__max": 50}


def rows(epoch: int, count: int = 12) -> list[Change]:
    delete = ("-D", {"k": epoch % count, "v": f"{epoch - 1}"})
    return [*(("+I", {"k": k, "v": f"{epoch}"}) for k in range(count)), delete]


def a_table(folder: Path, **options: Any) -> SmallTable:
    """Four epochs, of which the last three are compacted; a row is deleted in each."""
    small = small_table(
        folder / "db.db" / "t", "k INT, v STRING", ("k",),
        num_sorted_run__compaction_trigger=2, **options,
    )  # fmt: skip
    for epoch in range(4):
        small.commit(*rows(epoch))
        small.compact()
    return small


def an_append_table(folder: Path, **options: Any) -> SmallTable:
    small = small_table(
        folder / "db.db" / "t", "k INT, v STRING", (), compaction__min__file_num=2, **options
    )
    for epoch in range(4):
        small.commit(*(("+I", {"k": k, "v": f"{epoch}"}) for k in range(12)))
    small.compact()
    return small


def expire(table: FileStoreTable, keep: int) -> None:
    config = expire_config(table.options, num_max=keep, num_min=keep)
    snapshots, changelogs = ExpireSnapshots(table), ExpireChangelogs(table)
    snapshots.execute(snapshots.plan(config))
    changelogs.execute(changelogs.plan(config))


def rewrite_compacted(table: FileStoreTable, change: Callable[[pa.Table], pa.Table]) -> None:
    """The newest compaction has written other rows."""
    damage = Damage(table)
    assert damage.latest.commit_kind is CommitKind.COMPACT

    def rewritten(entry: ManifestEntry) -> ManifestEntry:
        changed_entry = damage.rewritten(entry, change)
        rows = pq.read_metadata(damage.file_of(entry)).num_rows
        return replace(changed_entry, file=replace(changed_entry.file, row_count=rows))

    damage.delta(
        lambda entries: [
            rewritten(entry) if entry.kind is FileKind.ADD else entry for entry in entries
        ]
    )


def of_replay(table: FileStoreTable) -> list[Finding]:
    return [finding for finding in findings_of(table) if finding.kind is FindingKind.CHANGELOG]


def test_a_compaction_that_alters_a_row_is_found_without_a_changelog(tmp_path: Path) -> None:
    table = a_table(tmp_path).table
    assert sound_report(table).replayed_changes == ["snapshots 1 to 7"]
    rewrite_compacted(table, lambda rows: set_value(rows, "v", "2", row=5))
    (finding,) = of_replay(table)
    assert finding.problem == (
        "0 rows to which the changes lead are not in the table, 1 have other values there, and to "
        "0 rows of the table no change leads, such as k = 6"
    )
    assert "a compaction has lost or altered rows" in finding.fix
    assert finding.where.endswith("bucket-0")


@pytest.mark.parametrize("producer", ["none", "input", "lookup", "full-compaction"])
def test_postponed_rows_are_replayed_from_their_move_on(tmp_path: Path, producer: str) -> None:
    """Rows that wait are in no bucket, neither of the replay nor of the snapshot."""
    small = small_table(
        tmp_path / "db.db" / "t", "k INT, v STRING", ("k",), bucket=-2,
        num_sorted_run__compaction_trigger=2, changelog_producer=producer,
    )  # fmt: skip
    table, writer = small.table, TableWriter(small.table)
    writer.write(rows(0))
    for epoch in range(1, 4):
        move_postponed(table)
        writer.write(rows(epoch))
        writer.restart()
        writer.commit.compact_fully()
    latest_id = table.snapshots.latest_id()
    assert sound_report(table).replayed_changes == [f"snapshots 1 to {latest_id}"]
    rewrite_compacted(table, lambda changed_rows: set_value(changed_rows, "v", "0", row=5))
    (finding,) = of_replay(table)
    assert "1 have other values there" in finding.problem


def test_a_compaction_that_brings_a_deleted_row_back_is_found(tmp_path: Path) -> None:
    table = a_table(tmp_path).table

    def with_the_deleted(rows: pa.Table) -> pa.Table:
        return set_value(rows, "k", 3, row=2)  # instead of 2: 3 was deleted

    rewrite_compacted(table, with_the_deleted)
    (finding,) = of_replay(table)
    assert finding.problem.startswith(
        "1 rows to which the changes lead are not in the table, 0 have"
    )
    assert "and to 1 rows of the table no change leads" in finding.problem


@pytest.mark.parametrize(
    ("keep", "tag", "keeps_changelogs", "replayed_ids"),
    [
        (3, None, False, "snapshots 6 to 7, on top of the rows of snapshot 5"),
        (3, None, True, "snapshots 1 to 7"),
        (3, 4, False, "snapshots 5 to 7, on top of the rows of snapshot 4"),
        (3, 2, False, "snapshots 6 to 7, on top of the rows of snapshot 5"),
    ],
    ids=["snapshots", "long-lived changelogs", "the tag before them", "an older tag is no use"],
)
@pytest.mark.parametrize("producer", ["input", "none"])
def test_changes_are_replayed_from_the_earliest_version_that_allows_it(
    tmp_path: Path,
    producer: str,
    keep: int,
    tag: int | None,
    keeps_changelogs: bool,
    replayed_ids: str,
) -> None:
    options = {"changelog__num_retained__max": 50} if keeps_changelogs else {}
    table = a_table(tmp_path, changelog_producer=producer, **options).table
    if tag is not None:
        give_tag(table, "t", tag)
    expire(table, keep)
    report = sound_report(table)
    assert (report.replayed_changes, report.unchecked_parts) == ([replayed_ids], [])
    rewrite_compacted(table, lambda rows: set_value(rows, "v", "2", row=5))
    assert len(of_replay(table)) == 1


def test_the_earliest_changelogs_may_be_gone_as_well(tmp_path: Path) -> None:
    table = a_table(tmp_path, **KEEPS_CHANGELOGS).table
    expire(table, 3)
    give_tag(table, "t", 5)
    for number in (1, 2):
        Damage(table).path(f"changelog/changelog-{number}").unlink()
    Damage(table).path("changelog/EARLIEST").unlink()
    assert sound_report(table).replayed_changes == [
        "snapshots 6 to 7, on top of the rows of snapshot 5"
    ], "between changelog 3 and the first version with rows nothing can be told"


def test_a_lost_change_is_found_behind_expired_snapshots(tmp_path: Path) -> None:
    small = a_table(tmp_path, changelog_producer="input")
    expire(small.table, 2)
    small.commit(("+I", {"k": 5, "v": "new"}))
    assert sound_report(small.table).replayed_changes
    Damage(small.table).changelog(lambda _: [])
    (finding,) = of_replay(small.table)
    assert "1 have other values there" in finding.problem
    assert "such as k = 5" in finding.problem
    assert "latest-full" in finding.fix


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_group_of_a_null_sequence_is_not_a_lost_change(tmp_path: Path, vectors: str) -> None:
    """The group of a null sequence: Paimon's own files and changelog say the same."""
    small = small_table(
        tmp_path / "db.db" / "t", "k INT, v INT, g INT", ("k",),
        merge_engine="partial-update", changelog_producer="lookup",
        fields__g__sequence_group="v", deletion_vectors__enabled=vectors,
    )  # fmt: skip
    small.commit(("+I", {"k": 1, "v": 1, "g": None}), ("+I", {"k": 2, "v": 1, "g": 1}))
    small.compact()
    assert [row["v"] for row in read_rows(small.table)] == [1, 1]
    assert sound_report(small.table).replayed_changes


def test_an_overwrite_is_where_a_replay_begins(tmp_path: Path) -> None:
    small = a_table(tmp_path, changelog_producer="input")
    Damage(small.table).snapshot(3, commit_kind=CommitKind.OVERWRITE)
    report = sound_report(small.table)
    assert report.replayed_changes == ["snapshots 4 to 7, on top of the rows of snapshot 3"]
    Damage(small.table).snapshot(commit_kind=CommitKind.OVERWRITE)
    report = sound_report(small.table)
    assert report.unchecked_parts == [
        "replay of the changes: snapshot 7 is an OVERWRITE without a changelog"
    ]


@pytest.mark.parametrize(("before", "after"), [("none", "input"), ("input", "none")])
def test_a_replay_begins_where_the_producer_was_changed(
    tmp_path: Path, before: str, after: str
) -> None:
    table = a_table(tmp_path, changelog_producer=before).table
    options = {**table.schema.options, "changelog-producer": after}
    assert table.schemas.create(replace(table.schema, schema_id=1, options=options))
    writer = SmallTable(open_file_store_table(table.location, table.clock), epoch=4)
    for epoch in range(10, 13):
        writer.commit(*rows(epoch))
    writer.compact()
    changed_table = open_file_store_table(table.location)
    report = sound_report(changed_table)
    assert [text.split(" to ")[0] for text in report.replayed_changes] == ["snapshots 8"]


def test_by_a_sequence_field_an_older_row_after_a_forgotten_delete_is_right(
    tmp_path: Path,
) -> None:
    small = small_table(
        tmp_path / "db.db" / "t", "k INT, ts INT, v STRING", ("k",), sequence__field="ts",
        changelog_producer="input", num_sorted_run__compaction_trigger=2,
    )  # fmt: skip
    small.commit(("+I", {"k": 1, "ts": 5, "v": "a"}), ("+I", {"k": 2, "ts": 5, "v": "a"}))
    small.commit(("+I", {"k": 2, "ts": 6, "v": "b"}))
    small.commit(("-D", {"k": 1, "ts": 9, "v": "a"}))
    small.compact()
    assert small.table.snapshots.latest_id() == 4
    small.commit(("+I", {"k": 1, "ts": 7, "v": "late"}))
    report = sound_report(small.table)
    assert report.replayed_changes == ["snapshots 1 to 5"]
    assert ["forgotten the delete" in text for text in report.unchecked_parts] == [True]
    Damage(small.table).changelog(lambda _: [])
    assert of_replay(small.table) == [], "so an unrecorded row is not seen here"


def test_a_job_that_begins_again_after_a_forgotten_delete_is_right(tmp_path: Path) -> None:
    """The job's numbers begin below that of the delete, which no file has any more."""
    small = small_table(
        tmp_path / "db.db" / "t", "k INT, v STRING", ("k",), num_sorted_run__compaction_trigger=2
    )
    small.commit(*(("+I", {"k": 1, "v": text}) for text in "abc"))
    small.commit(("-D", {"k": 1, "v": "c"}))
    small.compact()
    assert not stream_app.open_table(small.path).read().read_all().num_rows
    again = StreamTableCommit(small.table, "again", CompactHere(small.table))
    again.commit_epoch(
        0, write_changes(small.table, [("+I", {"k": 1, "v": "d"})], again.follow_and_wait())
    )
    assert read_rows(small.table) == [{"k": 1, "v": "d"}]
    report = sound_report(small.table)
    assert report.replayed_changes
    assert ["numbers go back" in text for text in report.unchecked_parts] == [True]


def test_by_a_sequence_field_a_delete_of_the_base_counts(tmp_path: Path) -> None:
    small = small_table(
        tmp_path / "db.db" / "t", "k INT, ts INT, v STRING", ("k",), sequence__field="ts",
        changelog_producer="input",
    )  # fmt: skip
    small.commit(("+I", {"k": 1, "ts": 5, "v": "a"}), ("+I", {"k": 2, "ts": 5, "v": "a"}))
    small.commit(("-D", {"k": 1, "ts": 9, "v": "a"}))
    small.commit(("+I", {"k": 1, "ts": 7, "v": "late"}), ("+I", {"k": 2, "ts": 8, "v": "b"}))
    expire(small.table, 2)
    assert sound_report(small.table).replayed_changes == [
        "snapshot 3, on top of the rows of snapshot 2"
    ]


@pytest.mark.parametrize("options", [{"bucket": -1}, {"bucket": 2, "bucket-key": "k"}])
def test_a_compaction_of_appended_rows_must_keep_their_number(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    table = an_append_table(tmp_path, **options).table
    sound_report(table)
    rewrite_compacted(table, lambda rows: rows.slice(1))
    (finding,) = of_replay(table)
    lost = options["bucket"] if options["bucket"] > 0 else 1
    assert finding.problem.endswith(f"has lost {lost} rows")


def test_a_compaction_may_take_deleted_rows_away(tmp_path: Path) -> None:
    small = an_append_table(tmp_path, bucket=-1, deletion_vectors__enabled=True)
    delete_some(small.table, random.Random(1))
    for number in range(5):
        small.commit(("+I", {"k": number, "v": "new"}))
    small.compact()
    assert sound_report(small.table).unchecked_parts == []


def with_a_branch(folder: Path) -> tuple[FileStoreTable, Damage]:
    """A branch of snapshot 3 of a table that has gone on, and has forgotten it."""
    small = a_table(folder)
    make_branch(small.table, "b", 3)
    expire(small.table, 1)
    branch = open_branch(small.table, "b")
    assert branch is not None
    return small.table, Damage(branch)


def test_a_branch_is_checked_as_a_table_of_its_own(tmp_path: Path) -> None:
    table, branch = with_a_branch(tmp_path)
    report = sound_report(table)
    assert (report.branch_count, report.version_count) == (1, 2)
    files = [entry.file.file_name for entry in FileStoreScan(branch.table).live(branch.latest)]
    branch.file_of(FileStoreScan(branch.table).live(branch.latest)[0]).unlink()
    (finding,) = findings_of(table, quick=True)
    assert finding.kind is FindingKind.FILE_MISSING
    assert finding.where.endswith(files[0])


def test_files_that_a_branch_shares_with_the_table_are_checked_and_reported_once(
    tmp_path: Path,
) -> None:
    small = a_table(tmp_path)
    alone = sound_report(small.table)
    make_branch(small.table, "b", 3)
    report = sound_report(small.table)
    assert (report.file_count, report.version_count) == (alone.file_count, alone.version_count + 1)
    damage = Damage(small.table)
    live = FileStoreScan(small.table).live(small.table.snapshots.snapshot(3))
    damage.file_of(live[0]).unlink()
    assert len(findings_of(small.table, quick=True)) == 1


def test_branches_without_a_schema_or_with_a_cut_one_are_reported(tmp_path: Path) -> None:
    table, branch = with_a_branch(tmp_path)
    schema = branch.path("branch/branch-b/schema/schema-0")
    schema.write_text("{")
    assert kinds_in(table) == {FindingKind.SCHEMA}
    schema.unlink()
    (finding,) = findings_of(table)
    assert finding.problem == "branch 'b' has no schema"
    assert "delete the branch" in finding.fix


def test_consumers_and_tags_of_a_branch_are_its_own(tmp_path: Path) -> None:
    table, branch = with_a_branch(tmp_path)
    branch.table.consumers.reset("search", 9)
    (finding,) = findings_of(table)
    assert finding.kind is FindingKind.CONSUMER
    assert finding.where.endswith("branch/branch-b/consumer/consumer-search")


def test_a_consumer_that_is_silent_for_too_long_goes_by_itself(tmp_path: Path) -> None:
    table = a_table(tmp_path, consumer__expiration_time="1 h").table
    table.consumers.reset("search", 99)
    last_seen = table.consumers.consumers()[0].modification_time_ms
    now = replace(table, clock=SteppingClock(last_seen))
    assert kinds_in(now) == {FindingKind.CONSUMER}
    later = replace(table, clock=SteppingClock(last_seen + 3_700_000))
    assert findings_of(later) == []
