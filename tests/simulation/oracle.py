"""What the table must hold, kept as a dict beside it, and whether it does.

Looks at the files themselves between two rounds: no fault reaches it.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from stream_app.fileio.memory_file_io import MemoryFileIO
from stream_app.filestore.manifest_files import ManifestFiles
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.file_store_scan import FileStoreScan
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.merge_read import MergeRead
from tests.simulation.actors import Job
from tests.simulation.scenario import Change
from tests.support.table_checks import check_chain
from tests.support.table_writer import KIND_TEXTS

Rows = list[tuple[Any, ...]]
COLUMNS = ("k", "v", "p", "t")


class BrokenPromiseError(AssertionError):
    """The table is not what it must be."""


@dataclass
class Oracle:
    """Follows a table snapshot by snapshot.

    Attributes:
        table: with the files of the world, which a crash replaces.
        may_expire: whether old snapshots may go.
    """

    table: FileStoreTable
    jobs: dict[str, Job]
    may_expire: bool = False
    seen: dict[tuple[str, int], int] = field(default_factory=dict)
    rows_at: list[Rows] = field(default_factory=lambda: [[]])
    checked: list[int] = field(default_factory=list)
    _state: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)
    _added: Rows = field(default_factory=list)
    _replayed: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)

    def look(self, table: FileStoreTable) -> None:
        """Check what is there, and all that is new.

        Raises:
            BrokenPromiseError: and what is wrong.
        """
        self.table = table
        ids = table.snapshots.ids()
        first, last = (ids[0], ids[-1]) if ids else (1, 0)
        demand(ids == list(range(first, last + 1)), f"snapshots {ids}")
        demand(first == 1 or self.may_expire, f"snapshots are gone: {ids} are left")
        demand(last >= len(self.checked), f"of {len(self.checked)} snapshots {ids} are left")
        demand(table.snapshots.latest_id() == (ids[-1] if ids else None), "the hint LATEST lies")
        for number in range(first, len(self.checked) + 1):
            same = self._checksum(number) == self.checked[number - 1]
            demand(same, f"snapshot {number} has changed")
        new = [
            table.snapshots.snapshot(number) for number in range(len(self.checked) + 1, last + 1)
        ]
        for snapshot in new:
            self._follow(snapshot)
            self.checked.append(self._checksum(snapshot.snapshot_id))
        if new:
            self.check_rows(new[-1], MergeRead(table))
        for job in self.jobs.values():
            for epoch in range(job.finished + 1):
                demand((job.user, epoch) in self.seen, f"epoch {epoch} of {job.user} is lost")

    def look_at_all(self, table: FileStoreTable) -> None:
        """As `look`, and everything that older snapshots name, once more."""
        self.look(table)
        remembering = with_memory(table)
        if table.snapshots.earliest_id() in (None, 1):
            check_chain(remembering)
        for number in table.snapshots.ids()[slice(None) if self.may_expire else slice(-1, None)]:
            self.check_rows(table.snapshots.snapshot(number), MergeRead(table))
        sizes, named = files_of(table), named_files(remembering)
        gone = {name for name, size in named.items() if sizes.get(name) != size}
        demand(not gone, f"files that snapshots name are gone or cut: {sorted(gone)}")
        for job in self.jobs.values():
            wanted = range(len(job.epochs))
            found = [epoch for user, epoch in self.seen if user == job.user]
            demand(found == list(wanted), f"{job.user} wrote {wanted}, the table has {found}")

    def check_rows(self, snapshot: Snapshot, read: MergeRead) -> None:
        """See that a snapshot reads as it must."""
        found = sorted(
            tuple(row[name] for name in COLUMNS)
            for batch in read.read(snapshot)
            for row in batch.to_pylist()
        )
        wanted = self.rows_at[snapshot.snapshot_id]
        demand(
            found == wanted,
            f"snapshot {snapshot.snapshot_id} has rows too many {_minus(found, wanted)}, "
            f"and too few {_minus(wanted, found)}",
        )

    def _follow(self, snapshot: Snapshot) -> None:
        changes: list[Change] = []
        if snapshot.commit_kind is CommitKind.APPEND:
            changes = self._claim(snapshot)
        for kind, row in changes:
            self._apply(self._state, kind, row)
        has_key = bool(self.table.schema.primary_keys)
        self.rows_at.append(sorted(self._state.values() if has_key else self._added))
        if self.table.options.writes_changelog:
            self._check_changelog(snapshot, changes)

    def _claim(self, snapshot: Snapshot) -> list[Change]:
        user, epoch = snapshot.commit_user, snapshot.commit_identifier
        where = f"snapshot {snapshot.snapshot_id}"
        demand((user, epoch) not in self.seen, f"{where} has epoch {epoch} of {user} again")
        demand(user in self.jobs, f"{where} is of {user}, whom nobody knows")
        job = self.jobs[user]
        demand(epoch < len(job.epochs), f"{where} has epoch {epoch} of {user}, never planned")
        self.seen[user, epoch] = snapshot.snapshot_id
        return job.epochs[epoch]

    def _apply(
        self, state: dict[tuple[Any, ...], tuple[Any, ...]], kind: str, row: dict[str, Any]
    ) -> None:
        values = tuple(row[name] for name in COLUMNS)
        keys = self.table.schema.primary_keys
        if not keys:
            self._added.append(values)
            return
        key = tuple(row[name] for name in keys)
        if kind in ("+I", "+U"):
            state[key] = values
        elif not self.table.options.boolean("ignore-delete"):
            state.pop(key, None)

    def _check_changelog(self, snapshot: Snapshot, changes: list[Change]) -> None:
        ignores = self.table.options.boolean("ignore-delete")
        wanted = [one for one in changes if not (ignores and one[0] in ("-U", "-D"))]
        found = [
            (KIND_TEXTS[row["_VALUE_KIND"]], {name: row[name] for name in COLUMNS})
            for entry in FileStoreScan(self.table).changelog(snapshot)
            for batch in self.table.bucket_files(entry.partition, entry.bucket).read(entry.file)
            for row in batch.to_pylist()
        ]
        number = snapshot.snapshot_id
        demand(self._by_key(found) == self._by_key(wanted), f"changelog of snapshot {number}")
        for kind, row in found:
            self._apply(self._replayed, kind, row)
        demand(self._replayed == self._state, f"replayed up to {number}, it is another table")

    def _by_key(self, changes: Iterable[Change]) -> dict[tuple[Any, ...], list[Change]]:
        grouped: dict[tuple[Any, ...], list[Change]] = {}
        for kind, row in changes:
            key = tuple(row[name] for name in self.table.schema.primary_keys)
            grouped.setdefault(key, []).append((kind, row))
        return grouped

    def _checksum(self, number: int) -> int:
        return zlib.crc32(
            self.table.file_io.read_bytes(f"{self.table.location}/snapshot/snapshot-{number}")
        )


def demand(holds: bool, otherwise: str) -> None:
    """An assertion that tells what is wrong."""
    if not holds:
        raise BrokenPromiseError(otherwise)


def files_of(table: FileStoreTable) -> dict[str, int]:
    """Names and sizes of all files of a table but schemas, snapshots and hints."""
    files = table.file_io
    assert isinstance(files, MemoryFileIO)
    found: dict[str, int] = {}
    folders = [table.location]
    while folders:
        folder = folders.pop()
        for status in files.list_status(folder):
            if not status.is_folder:
                found[status.name] = status.size
            elif status.name not in ("schema", "snapshot"):
                folders.append(f"{folder}/{status.name}")
    return found


def named_files(table: FileStoreTable) -> dict[str, int]:
    """Names and sizes of all files that snapshots name; an index manifest's is not told."""
    scan, manifests = FileStoreScan(table), table.manifests
    found: dict[str, int] = {}
    for number in table.snapshots.ids():
        snapshot = table.snapshots.snapshot(number)
        lists = [
            (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
            (snapshot.changelog_manifest_list, snapshot.changelog_manifest_list_size),
        ]
        for name, size in lists:
            if name is not None and size is not None:
                found[name] = size
                found |= {meta.file_name: meta.file_size for meta in manifests.read_list(name)}
        if snapshot.index_manifest is not None:
            found[snapshot.index_manifest] = table.file_io.size(
                table.paths.manifest(snapshot.index_manifest)
            )
            for entry in manifests.read_index_manifest(snapshot.index_manifest):
                found[entry.index_file.file_name] = entry.index_file.file_size
        for entry in (*scan.live(snapshot), *scan.changelog(snapshot)):
            found[entry.file.file_name] = entry.file.file_size
    return found


@dataclass
class _RememberedManifests:
    """Decodes each manifest once: that they are there, and as long as they were, is seen apart."""

    manifests: ManifestFiles
    known: dict[str, list[Any]] = field(default_factory=dict)

    def read_list(self, name: str, size: int | None = None) -> list[Any]:
        return self._once(name, lambda: self.manifests.read_list(name, size))

    def read_manifest(self, name: str, size: int | None = None) -> list[Any]:
        return self._once(name, lambda: self.manifests.read_manifest(name, size))

    def read_index_manifest(self, name: str | None) -> list[Any]:
        return self._once(name or "", lambda: self.manifests.read_index_manifest(name))

    def _once(self, name: str, read: Callable[[], list[Any]]) -> list[Any]:
        if name not in self.known:
            self.known[name] = read()
        return self.known[name]


def with_memory(table: FileStoreTable) -> FileStoreTable:
    """The table, which reads each manifest once."""
    remembering = replace(table)
    remembering.__dict__["manifests"] = _RememberedManifests(table.manifests)
    return remembering


def _minus(left: Rows, right: Rows) -> Rows:
    return sorted((Counter(left) - Counter(right)).elements())
