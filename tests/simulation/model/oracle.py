"""Keeps the expected rows of a table as a dict, and compares the table with them.

The oracle reads the files themselves between two rounds, beyond the reach of faults.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.finding import FindingKind
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.incremental_range import ScanMode, SnapshotPair
from stream_app.table.read.incremental_read import IncrementalRead
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.simulation.actors.workers import Job
from tests.simulation.model.kept_versions import KeptVersions
from tests.simulation.model.merging import deduplicate, placed
from tests.simulation.model.named_files import files_of, named_files, with_memory
from tests.simulation.model.promises import demand
from tests.simulation.model.row_checksums import check_row_sum
from tests.simulation.model.state import (
    COLUMNS,
    Row,
    Rows,
    Rules,
    SplitFile,
    State,
    Telling,
    by_key,
    in_order,
    replayed,
    rules_of,
)
from tests.simulation.model.timeline import Others, Timeline
from tests.simulation.scenario import Change
from tests.support.jobs.table_writer import KIND_TEXTS
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.snapshot_chain import check_chain
from tests.support.tables.sound_table import findings_of


@dataclass
class Oracle:
    """Follows a table snapshot by snapshot.

    Attributes:
        table: with the files of the world, which a crash replaces.
        may_expire: whether old snapshots may go.
        goes_back_to: no rollback of this round goes back behind this one; None: there is none.
        before: what there was before the table went back in this round.
        cut: what is left of it; meant only then.
        others: what processes other than jobs take out of the table.
        kept_versions: the versions that stay readable without a snapshot.
        time: the versions that lead to the latest one.
        is_checked: ``check`` looks at the table at the end.
    """

    table: FileStoreTable
    jobs: dict[str, Job]
    may_expire: bool = False
    is_checked: bool = False
    goes_back_to: int | None = None
    before: Timeline | None = None
    cut: int = 0
    others: Others = field(default_factory=Others)
    kept_versions: KeptVersions = field(default_factory=KeptVersions)
    snapshot_ids: dict[tuple[str, int], int] = field(default_factory=dict)
    rules: Rules = field(init=False)
    time: Timeline = field(init=False)
    checksums: list[int] = field(default_factory=list)
    _by_delta: dict[str, tuple[Rows, list[Change]]] = field(default_factory=dict)
    _restored_id: int | None = None
    _taken_away: dict[int, Callable[[Row], bool]] = field(default_factory=dict)
    _state: State = field(init=False)

    def __post_init__(self) -> None:
        schema = self.table.schema
        self.rules = rules_of(schema)
        self._state = State(self.rules)
        self.time = Timeline([""], [[]], [[]], [[]], [self._state.copy()])

    def look(self, table: FileStoreTable) -> None:
        """Check what is there, and all that is new.

        Raises:
            BrokenPromiseError: and what is wrong.
        """
        self.table = table
        ids = table.snapshots.ids()
        if self.goes_back_to is not None:
            self._see_what_went(ids, self.goes_back_to)
        first, last = (ids[0], ids[-1]) if ids else (1, 0)
        rest = ids[1:] if first == self._restored_id else ids
        demand(rest == list(range(last - len(rest) + 1, last + 1)), f"snapshots {ids}")
        demand(first == 1 or self.may_expire, f"snapshots are gone: {ids} are left")
        demand(last >= len(self.checksums), f"of {len(self.checksums)} snapshots {ids} are left")
        demand(table.snapshots.latest_id() == (ids[-1] if ids else None), "the hint LATEST lies")
        for number in (number for number in ids if number <= len(self.checksums)):
            same = self._checksum(number) == self.checksums[number - 1]
            demand(same, f"snapshot {number} has changed")
        new = [
            table.snapshots.snapshot(number) for number in range(len(self.checksums) + 1, last + 1)
        ]
        for snapshot in new:
            self._follow(snapshot)
            self.checksums.append(self._checksum(snapshot.snapshot_id))
        if new:
            self.check_rows(new[-1], MergeRead(table))
        for job in self.jobs.values():
            for epoch in range(0 if job.is_cut else job.finished_epoch + 1):
                demand(
                    (job.user, epoch) in self.snapshot_ids, f"epoch {epoch} of {job.user} is lost"
                )

    def look_at_all(self, table: FileStoreTable) -> None:
        """Look as `look` does, and at all files of older snapshots again; all jobs are drained."""
        self.look(table)
        self._check_nothing_waits()
        remembering = with_memory(table)
        if table.snapshots.earliest_id() in (None, 1):
            check_chain(remembering)
        all_of_them = self.may_expire or self._restored_id is not None
        for number in table.snapshots.ids()[slice(None) if all_of_them else slice(-1, None)]:
            self.check_rows(table.snapshots.snapshot(number), MergeRead(table))
        self._check_tools()
        sizes, named_sizes = files_of(table), named_files(remembering)
        lost_names = {name for name, size in named_sizes.items() if sizes.get(name) != size}
        demand(not lost_names, f"files that snapshots name are gone or cut: {sorted(lost_names)}")
        for job in self.jobs.values():
            expected = range(len(job.epochs))
            epochs = [epoch for user, epoch in self.snapshot_ids if user == job.user]
            demand(epochs == list(expected), f"{job.user} wrote {expected}, the table has {epochs}")

    def _check_tools(self) -> None:
        """See that ``diff`` tells what differs, and that ``check`` finds nothing."""
        table = self.table
        ids = [
            number for number in table.snapshots.ids() if number >= self.kept_versions.whole_from
        ]
        # With another number of buckets a partition's versions cannot be compared.
        newest = self._counts(ids[-1]) if ids else {}
        ids = [
            number
            for number in ids
            if all(newest.get(part, count) == count for part, count in self._counts(number).items())
        ]
        if len(ids) > 1 and self.rules.keys:
            first, last = (table.snapshots.snapshot(number) for number in (ids[0], ids[-1]))
            read = IncrementalRead(table, shows_row_kinds=True)
            changes = [
                (row.pop("rowkind"), row)
                for stream in read.streams(SnapshotPair(first, last), ScanMode.DIFF)
                for batch in stream()
                for row in batch.to_pylist()
            ]
            # After a TRUNCATE a key may have another dynamic bucket: its delete stands apart.
            changes.sort(key=lambda change: change[0] != "-D")
            rows = replayed(self.rules, self.time.rows[ids[0]], changes, merge=deduplicate)
            demand(rows == self.time.rows[ids[-1]], f"diff from {ids[0]} to {ids[-1]}: {changes}")
        if self.is_checked:
            findings = [
                finding
                for finding in findings_of(table)
                # Nobody compacts a branch.
                if finding.kind is not FindingKind.WAITING_ROWS or "/branch/" not in finding.where
            ]
            demand(not findings, f"check finds {findings}")

    def _counts(self, number: int) -> dict[bytes, int]:
        """The number of buckets of each partition in a version."""
        live = FileStoreScan(self.table).live(self.table.snapshots.snapshot(number))
        return {entry.partition: entry.total_buckets for entry in live if entry.bucket != POSTPONED}

    def check_kept(self) -> None:
        """See that what tags, changelogs and consumers keep can be read."""
        self.kept_versions.check(self.table, self.check_rows, self._check_changes, self.time.has)

    def check_rows(self, snapshot: Snapshot, read: MergeRead) -> None:
        """See that a snapshot reads as it must."""
        changes = in_order(
            tuple(row[name] for name in COLUMNS)
            for batch in read.read(snapshot)
            for row in batch.to_pylist()
        )
        expected, _ = self._by_delta[snapshot.delta_manifest_list]
        demand(
            changes == expected,
            f"snapshot {snapshot.snapshot_id} has rows too many {_minus(changes, expected)}, "
            f"and too few {_minus(expected, changes)}",
        )

    def _check_nothing_waits(self) -> None:
        """See that readers get all rows, and followers all changes."""
        waiting = self._state.waiting()
        demand(not waiting, f"no compaction has taken in {waiting}, and all jobs are drained")

    def may_go(self) -> bool:
        """Return whether an expiry may delete a version while a process reads it."""
        return self.may_expire or self.goes_back_to is not None

    def end_round(self) -> None:
        """Note that the rollback has ended."""
        self.goes_back_to = self.before = None
        self.kept_versions.tried_from = 1

    def _see_what_went(self, ids: list[int], target: int) -> None:
        """Forget what a rollback took away: the latest versions, down to the target at most.

        Where the target had expired, and is there again, there may be none between it and what is
        still to go.
        """
        last = ids[-1] if ids else 0
        demand(last >= min(target, len(self.checksums)), f"of {ids} {target} was to stay")
        if last < len(self.checksums):
            if self.before is None:
                self.before = self.time
            self.time, self.cut = self.time.up_to(last), last
            del self.checksums[last:]
            self._state = self.time.states[-1].copy()
            self._taken_away = {n: goes for n, goes in self._taken_away.items() if n <= last}
            self.snapshot_ids = {
                epoch: number for epoch, number in self.snapshot_ids.items() if number <= last
            }
            self.kept_versions.roll_back_to(last)
            for job in self.jobs.values():
                epochs = range(job.finished_epoch + 1)
                job.is_cut |= any((job.user, epoch) not in self.snapshot_ids for epoch in epochs)
                job.may_be_stopped = True
        if ids and ids[0] == target:
            # Written again from its tag, perhaps without a changelog that has expired.
            demand(self.time.has(self.table.snapshots.snapshot(target)), f"{target} is another")
            self.checksums[target - 1] = self._checksum(target)
            self._restored_id = target

    def _follow(self, snapshot: Snapshot) -> None:
        changes: list[Change] = []
        match snapshot.commit_kind:
            case CommitKind.APPEND:
                changes = self._flush(snapshot, self._claim(snapshot))
            case CommitKind.COMPACT:
                changes = self._lift(snapshot)
            case CommitKind.OVERWRITE:
                self._overwrite(snapshot)
        before = self.time.visible_rows[-1]
        self.time.lists.append(snapshot.delta_manifest_list)
        self.time.rows.append(self._state.rows())
        self.time.changes.append(changes)
        self.time.visible_rows.append(self._state.seen())
        self.time.states.append(self._state.copy())
        self._by_delta[snapshot.delta_manifest_list] = self.time.rows[-1], changes
        check_row_sum(self.table, snapshot, self.time.visible_rows[-1])
        if self.table.options.writes_changelog:
            self._check_changelog(snapshot, changes, before)

    def _flush(self, snapshot: Snapshot, changes: list[Change]) -> list[Change]:
        """Take an epoch in; the changes that it tells."""
        rules = self.rules
        if rules.ignores_deletes:
            changes = [change for change in changes if change[0] not in ("-U", "-D")]
        if rules.crosses:
            changes = placed(self._state.merged().values(), changes, self.table.schema.options)
        entries = FileStoreScan(self.table).delta(snapshot) if rules.keys else []
        if rules.postpones:
            self._state.postpone(changes, [entry.file.file_name for entry in entries])
            return changes if rules.telling is Telling.FLUSHED else []
        self._state.flush(changes, self._keys_of(entries))
        if rules.keys and rules.telling is Telling.FLUSHED:  # the newest change of a key
            return [versions[-1] for versions in self.by_key(changes).values()]
        return changes if rules.telling in (Telling.FLUSHED, Telling.INPUT) else []

    def _overwrite(self, snapshot: Snapshot) -> None:
        """Rows go, or a partition gets another number of buckets and keeps its rows."""
        entries = FileStoreScan(self.table).delta(snapshot)
        came = [entry for entry in entries if entry.kind is FileKind.ADD]
        removed_entries = [entry for entry in entries if entry.kind is FileKind.DELETE]
        before, after = (
            {entry.total_buckets for entry in those} for those in (removed_entries, came)
        )
        if not came or before & after:
            goes = self.others.takes_away(snapshot)
            self._taken_away[snapshot.snapshot_id] = goes
            self._state.take_away(goes)
            return
        keys = self._keys_of(came)
        split = [
            SplitFile(
                file.file_name, file.level, (entry.partition, entry.bucket), keys[file.file_name],
                (file.min_sequence_number, file.max_sequence_number),
            )
            for entry in came
            for file in [entry.file]
        ]  # fmt: skip
        self._state.rescale([entry.file for entry in removed_entries], split)

    def _keys_of(self, entries: Iterable[ManifestEntry]) -> dict[str, set[Row]]:
        """The keys of each file."""
        return {
            entry.file.file_name: {
                tuple(row[name] for name in self.rules.keys)
                for batch in self.table.bucket_files(entry.partition, entry.bucket).read(entry.file)
                for row in batch.select(self.rules.keys).to_pylist()
            }
            for entry in entries
        }

    def _lift(self, snapshot: Snapshot) -> list[Change]:
        """See what a compaction took off level 0, or out of no bucket; the changes it tells."""
        if not self.rules.keys:
            return []
        scan = FileStoreScan(self.table)
        entries = scan.delta(snapshot)
        waiting_names = {entry.file.file_name for entry in entries if entry.bucket == POSTPONED}
        if waiting_names:
            added_entries = [entry for entry in entries if entry.kind is FileKind.ADD]
            changes = self._state.move(waiting_names, self._keys_of(added_entries))
            return changes if self.rules.telling is Telling.INPUT else []
        bucket_of_file = {
            entry.file.file_name: (entry.partition, entry.bucket)
            for entry in entries
            if entry.kind is FileKind.DELETE and entry.file.level == 0
        }
        between: set[object] = set()
        if self.rules.telling is Telling.WHOLE:
            highest = self.table.options.num_levels - 1
            between = {
                (entry.partition, entry.bucket)
                for entry in scan.live(snapshot)
                if 0 < entry.file.level < highest
            }
        return self._state.lift(bucket_of_file, lambda bucket: bucket not in between)

    def replayed(self, base: int, changes: Mapping[int, list[Change]]) -> Rows:
        """The newest rows of a follower that began with a version."""
        rows = self.time.visible_rows[base]
        for number in range(base + 1, len(self.time.rows)):
            if number in self._taken_away:  # which followers do not see
                goes = self._taken_away[number]
                rows = [row for row in rows if not goes(row)]
            rows = replayed(self.rules, rows, changes[number])
        return rows

    def _check_changes(self, changelog: Snapshot, changes: list[Change]) -> None:
        _, expected = self._by_delta[changelog.delta_manifest_list]
        same = self.by_key(changes) == self.by_key(expected)
        demand(same, f"changes of {changelog.snapshot_id}: {changes} instead of {expected}")

    def _claim(self, snapshot: Snapshot) -> list[Change]:
        user, epoch = snapshot.commit_user, snapshot.commit_identifier
        where = f"snapshot {snapshot.snapshot_id}"
        demand((user, epoch) not in self.snapshot_ids, f"{where} has epoch {epoch} of {user} again")
        plans = [job.plans[user] for job in self.jobs.values() if user in job.plans]
        demand(bool(plans), f"{where} is of the unknown user {user}")
        [epochs] = plans
        demand(epoch < len(epochs), f"{where} has epoch {epoch} of {user}, never planned")
        behind = epoch == 0 or (user, epoch - 1) in self.snapshot_ids
        demand(behind, f"{where} has epoch {epoch} of {user}, and the one before is not there")
        self.snapshot_ids[user, epoch] = snapshot.snapshot_id
        return epochs[epoch]

    def _check_changelog(self, snapshot: Snapshot, changes: list[Change], before: Rows) -> None:
        changelog_rows = [
            (KIND_TEXTS[row["_VALUE_KIND"]], {name: row[name] for name in COLUMNS})
            for entry in FileStoreScan(self.table).changelog(snapshot)
            for batch in self.table.bucket_files(entry.partition, entry.bucket).read(entry.file)
            for row in batch.to_pylist()
        ]
        number = snapshot.snapshot_id
        same = self.by_key(changelog_rows) == self.by_key(changes)
        demand(same, f"changelog of snapshot {number}: {changelog_rows} instead of {changes}")
        if snapshot.commit_kind is not CommitKind.OVERWRITE:
            rows = replayed(self.rules, before, changelog_rows)
            demand(
                rows == self.time.visible_rows[-1], f"replayed up to {number}, it is another table"
            )

    def by_key(self, changes: Iterable[Change]) -> dict[Row, list[Change]]:
        """Changes of each key of the table, in their order."""
        return by_key(changes, self.rules.keys)

    def _checksum(self, number: int) -> int:
        return zlib.crc32(
            self.table.file_io.read_bytes(f"{self.table.location}/snapshot/snapshot-{number}")
        )


def _minus(left: Rows, right: Rows) -> Rows:
    return in_order((Counter(left) - Counter(right)).elements())
