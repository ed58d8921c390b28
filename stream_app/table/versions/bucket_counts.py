"""Determines the number of buckets of each partition of a table.

A file's manifest entry records the number by which its rows were hashed. A partition keeps that
number until it is overwritten, even if the table's option ``bucket`` changes.

Source: Paimon `manifest/ManifestEntry.java#totalBuckets`,
`operation/commit/ConflictDetection.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stream_app.model.files.manifest_entry import FileKind, ManifestEntry
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.bucket_basis import BucketBasis
from stream_app.table.versions.file_store_scan import FileStoreScan


def counts_after(
    earlier_counts: Mapping[bytes, int], entries: Iterable[ManifestEntry], table_count: int
) -> Mapping[bytes, int]:
    """Return the partitions whose number of buckets differs from the table's option.

    Args:
        earlier_counts: the result before `entries`, which is returned if nothing changes.
        entries: further entries, in the order of their commits.
        table_count: the table's option ``bucket``.
    """
    counts = dict(earlier_counts)
    for entry in entries:
        if entry.kind is not FileKind.ADD or entry.total_buckets <= 0:
            continue
        if entry.total_buckets == table_count:
            counts.pop(entry.partition, None)
        else:
            counts[entry.partition] = entry.total_buckets
    return earlier_counts if counts == earlier_counts else counts


def basis_of(table: FileStoreTable, snapshot: Snapshot) -> BucketBasis:
    """Return the basis by which a snapshot routes rows: its index, or its bucket counts."""
    index = snapshot.index_manifest
    counts: Mapping[bytes, int] = {}
    if table.kind_traits.has_bucket_number:
        live_entries = FileStoreScan(table).iterate_live(snapshot)
        counts = counts_after({}, live_entries, table.options.bucket)
    return BucketBasis(routed_on=index, written_on=index, bucket_counts=counts)
