"""Reads manifests for the check of a table, and compares each with the facts in its manifest list.

`metadata_check` calls it for each version. An unreadable manifest becomes a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from stream_app.errors import CorruptFileError
from stream_app.format.avro.manifest_avro import describe_manifest
from stream_app.format.binary_row import deserialize_row, key_order
from stream_app.model.files.index_file_meta import IndexManifestEntry
from stream_app.model.files.manifest_entry import ManifestEntry, ManifestFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.table.file_store_table import FileStoreTable

_T = TypeVar("_T")
_ROLL_BACK = "roll the table back to a snapshot or tag before it: stream-app rollback-to"


@dataclass(slots=True)
class ManifestCheck:
    """A reader of manifests that collects findings about them.

    Attributes:
        findings: about the manifests that were read so far.
    """

    table: FileStoreTable
    findings: list[Finding] = field(init=False, default_factory=list)
    _checked_names: set[str] = field(init=False, default_factory=set)

    def begin_version(self) -> None:
        """Forget the findings about the previous version."""
        self.findings = []

    def manifests(self, name: str | None, size: int | None) -> list[ManifestFileMeta] | None:
        """Read a manifest list; empty without a list, None if the list is unreadable."""
        if name is None:
            return []
        return self._read(lambda: self.table.manifests.read_list(name, size))

    def entries(self, metas: Iterable[ManifestFileMeta]) -> list[ManifestEntry] | None:
        """Read the entries of manifests in order; None if a manifest is unreadable."""
        read_entries: list[ManifestEntry] = []
        is_complete = True
        for meta in metas:
            read_manifest = self.table.manifests.read_manifest
            entries = self._read(partial(read_manifest, meta.file_name, meta.file_size))
            if entries is None:
                is_complete = False
                continue
            if meta.file_name not in self._checked_names:
                self._checked_names.add(meta.file_name)
                self._compare(meta, entries)
            read_entries += entries
        return read_entries if is_complete else None

    def entries_of_list(self, name: str | None, size: int | None) -> list[ManifestEntry] | None:
        """Read all entries of a manifest list; None if the list or a manifest is unreadable."""
        metas = self.manifests(name, size)
        return None if metas is None else self.entries(metas)

    def index_entries(self, name: str | None) -> list[IndexManifestEntry]:
        """Read the entries of an index manifest; empty if it is unreadable."""
        return self._read(lambda: self.table.manifests.read_index_manifest(name)) or []

    def _read(self, read: Callable[[], list[_T]]) -> list[_T] | None:
        try:
            return read()
        except CorruptFileError as error:
            self.findings.append(
                Finding(
                    kind=FindingKind.MANIFEST,
                    problem=error.problem,
                    where=error.where,
                    fix=f"restore the file from a backup, or {_ROLL_BACK}; if it is missing "
                    "because an expiry was interrupted, finish that: stream-app expire-snapshots",
                )
            )
            return None

    def _compare(self, meta: ManifestFileMeta, entries: list[ManifestEntry]) -> None:
        """Compare what a manifest list says of a manifest with the manifest's entries."""
        types = self.table.paths.partition_type.types
        actual_meta = describe_manifest(
            entries, file_name=meta.file_name, file_size=meta.file_size, partition_types=types
        )
        differences = [
            f"{name} = {claimed_count}, which is {actual_count}"
            for name, claimed_count, actual_count in (
                ("_NUM_ADDED_FILES", meta.num_added_files, actual_meta.num_added_files),
                ("_NUM_DELETED_FILES", meta.num_deleted_files, actual_meta.num_deleted_files),
            )
            if claimed_count != actual_count
        ]
        for name, claimed_min, claimed_max, actual_min, actual_max in (
            (
                "buckets",
                meta.min_bucket,
                meta.max_bucket,
                actual_meta.min_bucket,
                actual_meta.max_bucket,
            ),
            (
                "levels",
                meta.min_level,
                meta.max_level,
                actual_meta.min_level,
                actual_meta.max_level,
            ),
        ):
            if (
                claimed_min is None
                or claimed_max is None
                or actual_min is None
                or actual_max is None
            ):
                continue
            if claimed_min > actual_min or claimed_max < actual_max:
                claimed_range = f"{name} = {claimed_min} to {claimed_max}"
                differences.append(f"{claimed_range}, which is {actual_min} to {actual_max}")
        if entries and types and self._excludes_a_partition(meta, entries):
            differences.append("bounds of partitions that leave out some of its entries")
        if differences:
            self.findings.append(
                Finding(
                    kind=FindingKind.MANIFEST,
                    problem="a manifest list says of a manifest " + "; ".join(differences),
                    where=self.table.paths.manifest(meta.file_name),
                    fix=f"{_ROLL_BACK}; until then readers that prune by it miss files",
                )
            )

    def _excludes_a_partition(self, meta: ManifestFileMeta, entries: list[ManifestEntry]) -> bool:
        """Return whether the listed bounds exclude the partition of an entry."""
        stats, types = meta.partition_stats, self.table.paths.partition_type.types
        if len(stats.null_counts) != len(types):
            return False  # the writer recorded no bounds
        key_of = key_order(types)
        low, high = key_of(stats.min_values), key_of(stats.max_values)
        has_bound = [value is not None for value in deserialize_row(stats.max_values, types)]
        for partition in {entry.partition for entry in entries}:
            values = key_of(partition)
            for index, value in enumerate(deserialize_row(partition, types)):
                if value is None:
                    is_outside = stats.null_counts[index] == 0
                else:
                    is_outside = has_bound[index] and not (
                        (low[index],) <= (values[index],) <= (high[index],)
                    )
                if is_outside:
                    return True
        return False
