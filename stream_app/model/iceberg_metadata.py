"""Describes an Iceberg table's metadata: files, manifests, snapshots and versions.

Bytes on disk: `format.iceberg`. A value of a partition or bound is one of `format.binary_row`.

Source: Iceberg's table specification, versions 2 and 3.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

DELTA_MANIFEST_LIST = "paimon.delta-manifest-list"
"""Key of a summary: two snapshots of Paimon with the same number differ in it."""


class EntryStatus(enum.IntEnum):
    """The effect of a snapshot on a file, which existed before, is added, or is removed."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


class ManifestContent(enum.IntEnum):
    """The kind of files in a manifest."""

    DATA = 0
    DELETES = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorPlace:
    """The place of a data file's deletion vector: an offset in an index file."""

    data_file: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFile:
    """A data file, or the deletion vector of one.

    Attributes:
        path: the path of the data file, or of the index file with the vector.
        partition: the values in the order of the partition keys.
        row_count: the rows of the data file, or the number of deleted rows.
        null_counts, lower_bounds, upper_bounds: the statistics by field id; bounds are bytes of
            Iceberg's single values.
        first_row_id: the row id of the first row, in version 3.
        vector: the place of the deletion vector; None for a data file.
    """

    path: str
    size: int
    partition: tuple[object, ...]
    row_count: int
    null_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    first_row_id: int | None = None
    vector: VectorPlace | None = None

    @property
    def key(self) -> str:
        """The key that is unique among the live files of a table."""
        if self.vector is None:
            return self.path
        return f"{self.path}@{self.vector.offset} {self.vector.data_file}"


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergEntry:
    """A file in a manifest.

    Attributes:
        snapshot_id: the snapshot that added or removed the file.
        sequence_number: the sequence number of the version that added the file.
    """

    status: EntryStatus
    snapshot_id: int
    sequence_number: int
    file: IcebergFile


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """The range of a partition column in a manifest; None if it has no value that is not null.

    Attributes:
        contains_nan: whether a value is NaN; None if an older writer did not record it.
    """

    contains_null: bool
    contains_nan: bool | None
    lower_bound: bytes | None
    upper_bound: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergManifest:
    """A manifest as a manifest list describes it.

    Attributes:
        file_counts, row_counts: the numbers of files and rows by the status of their entries.
    """

    path: str
    length: int
    content: ManifestContent
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int
    file_counts: Mapping[EntryStatus, int]
    row_counts: Mapping[EntryStatus, int]
    partitions: tuple[PartitionSummary, ...] = ()
    first_row_id: int | None = None

    @property
    def live_file_count(self) -> int:
        """The number of files that are not deleted."""
        return self.file_counts[EntryStatus.ADDED] + self.file_counts[EntryStatus.EXISTING]

    @property
    def live_row_count(self) -> int:
        """The number of rows of live files."""
        return self.row_counts[EntryStatus.ADDED] + self.row_counts[EntryStatus.EXISTING]


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """An Iceberg snapshot, which has the number of Paimon's snapshot.

    Attributes:
        summary: the operation, counts, and the delta manifest list of Paimon's snapshot.
        first_row_id, added_row_count: in version 3.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    time_ms: int
    manifest_list: str
    schema_id: int
    summary: Mapping[str, str]
    first_row_id: int | None = None
    added_row_count: int | None = None

    @property
    def delta_manifest_list(self) -> str | None:
        """The unique name of Paimon's delta manifest list; None for another writer's snapshot."""
        return self.summary.get(DELTA_MANIFEST_LIST)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergMetadata:
    """One version of a table's metadata (``vN.metadata.json``).

    Attributes:
        version: N, and the sequence number of its latest snapshot.
        schemas: number of a schema → its JSON.
        partition_fields: name and field id of each partition key.
        snapshots: oldest first; the last one is the current one.
        tags: name → number of a snapshot in `snapshots`.
        older_files: paths of earlier versions that were left, with their times.
        next_row_id: the row id of the next row, in version 3.
    """

    version: int
    format_version: int
    table_uuid: str
    location: str
    schemas: Mapping[int, Mapping[str, Any]]
    last_column_id: int
    partition_fields: tuple[tuple[str, int], ...]
    snapshots: tuple[IcebergSnapshot, ...]
    tags: Mapping[str, int] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    older_files: tuple[tuple[str, int], ...] = ()
    next_row_id: int = 0

    @property
    def current_snapshot(self) -> IcebergSnapshot:
        """The latest snapshot."""
        return self.snapshots[-1]
