"""Damages a table as bugs and broken disks do: its files are really changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stream_app.format.snapshot_json import encode_snapshot
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import FileKind, ManifestEntry, ManifestFileMeta
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan

Entries = list[ManifestEntry]


@dataclass(frozen=True)
class Damage:
    """A damage to the latest snapshot of a table."""

    table: FileStoreTable

    @property
    def latest(self) -> Snapshot:
        snapshot = self.table.snapshots.latest()
        assert snapshot is not None
        return snapshot

    def path(self, name: str) -> Path:
        return Path(self.table.location) / name

    def snapshot(self, number: int | None = None, **changes: Any) -> None:
        """Change the content of the snapshot's file."""
        number = number or self.latest.snapshot_id
        changed_snapshot = replace(self.table.snapshots.snapshot(number), **changes)
        self.path(f"snapshot/snapshot-{number}").write_bytes(encode_snapshot(changed_snapshot))

    def delta(
        self,
        change: Callable[[Entries], Entries],
        describe: Callable[[ManifestFileMeta], ManifestFileMeta] = lambda meta: meta,
    ) -> None:
        """Give the latest snapshot other changes, and counts that fit."""
        before = FileStoreScan(self.table).delta(self.latest)
        after = change(before)
        name, size = self._written(after, describe)
        row_gain = _rows(after) - _rows(before)
        total, delta = self.latest.total_record_count, self.latest.delta_record_count
        assert total is not None
        assert delta is not None
        self.snapshot(
            delta_manifest_list=name,
            delta_manifest_list_size=size,
            total_record_count=total + row_gain,
            delta_record_count=delta + row_gain,
        )

    def changelog(self, change: Callable[[Entries], Entries]) -> None:
        """Give the latest snapshot other changelog files."""
        after = change(FileStoreScan(self.table).changelog(self.latest))
        name, size = self._written(after, lambda meta: meta)
        rows = sum(entry.file.row_count for entry in after)
        self.snapshot(
            changelog_manifest_list=name,
            changelog_manifest_list_size=size,
            changelog_record_count=rows,
        )

    def index(self, entries: Sequence[IndexManifestEntry]) -> None:
        """Give the latest snapshot these index files."""
        self.snapshot(index_manifest=self.table.manifests.write_index_manifest(entries))

    def file_of(self, entry: ManifestEntry) -> Path:
        return Path(self.table.paths.data_file(entry.partition, entry.bucket, entry.file))

    def rewritten(
        self, entry: ManifestEntry, change: Callable[[pa.Table], pa.Table]
    ) -> ManifestEntry:
        """Return the entry of a file that has other rows; the entry has the file's size."""
        path = self.file_of(entry)
        pq.write_table(change(pq.read_table(path)), path, store_schema=False)
        return replace(entry, file=replace(entry.file, file_size=path.stat().st_size))

    def _written(
        self, entries: Entries, describe: Callable[[ManifestFileMeta], ManifestFileMeta]
    ) -> tuple[str, int]:
        metas = self.table.manifests.write_manifests(entries)
        return self.table.manifests.write_list([describe(meta) for meta in metas])


def set_value(rows: pa.Table, column: str, value: Any, row: int = 0) -> pa.Table:
    """Replace one value of a column."""
    values = rows.column(column).to_pylist()
    values[row] = value
    place = rows.schema.get_field_index(column)
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array(values, field.type))


def _rows(entries: Entries) -> int:
    return sum(
        entry.file.row_count if entry.kind is FileKind.ADD else -entry.file.row_count
        for entry in entries
    )
