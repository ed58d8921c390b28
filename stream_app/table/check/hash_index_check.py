"""Checks the index of a table's keys (``bucket = -1``) against its rows, in the newest snapshot.

A hash belongs to one bucket of its partition, and the bucket of a row has the hash of its key. If
not, the next change of the key would go to another bucket, and the key would have two rows.

Source: Paimon `index/PartitionIndex.java`, `index/DynamicBucketIndexMaintainer.java`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from stream_app.errors import CorruptFileError
from stream_app.format.bucket_hash import hash_columns
from stream_app.format.hash_index import Hashes
from stream_app.model.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind, unreadable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.index_manifests import index_manifest

_FIX = (
    "roll the table back to a snapshot or tag before it: stream-app rollback-to; or let Paimon "
    "write the partition anew (INSERT OVERWRITE)"
)


def hash_index_findings(table: FileStoreTable) -> Iterator[Finding]:
    """Problems of the index; memory is four bytes for each key of a partition.

    Raises:
        UnsupportedTableError: a data file has a format that stream_app does not read.
    """
    try:
        latest = table.snapshots.latest()
    except CorruptFileError:
        return  # the check of snapshots tells it
    if latest is None:
        return
    files: dict[bytes, dict[int, list[DataFileMeta]]] = defaultdict(lambda: defaultdict(list))
    try:
        index = index_manifest(table, latest.index_manifest).hashes
        for entry in FileStoreScan(table).live(latest):
            files[entry.partition][entry.bucket].append(entry.file)
        for partition in sorted(files.keys() | index.keys()):
            hashes = {
                bucket: table.hash_index_files.read(entry)
                for bucket, entry in index.get(partition, {}).items()
            }
            where = table.paths.partition_folder(partition)
            yield from _repeated(hashes, where)
            yield from _unknown(table, partition, files[partition], hashes)
    except CorruptFileError as error:
        if table.snapshots.exists(latest.snapshot_id):
            yield unreadable(error, table.location)


def _repeated(hashes: Mapping[int, Hashes], where: str) -> Iterator[Finding]:
    if not hashes:
        return
    distinct, counts = np.unique(np.concatenate([*hashes.values()]), return_counts=True)
    repeated = distinct[counts > 1]
    if not len(repeated):
        return
    buckets = [bucket for bucket, of_bucket in sorted(hashes.items()) if repeated[0] in of_bucket]
    yield _finding(
        f"the index has {len(repeated)} hashes of keys twice, such as {repeated[0]} of bucket "
        + " and ".join(map(str, buckets)),
        where,
    )


def _unknown(
    table: FileStoreTable,
    partition: bytes,
    files: Mapping[int, Sequence[DataFileMeta]],
    hashes: Mapping[int, Hashes],
) -> Iterator[Finding]:
    keys = table.schema.key_type
    for bucket, of_bucket in sorted(files.items()):
        access = table.bucket_files(partition, bucket, columns=keys, system=())
        known = hashes.get(bucket, np.empty(0, np.int32))
        unknown = sum(
            int(np.count_nonzero(~np.isin(hash_columns(batch.columns, keys.types), known)))
            for file in of_bucket
            for batch in access.read(file)
        )
        if unknown:
            yield _finding(
                f"{unknown} rows have keys that the bucket's index lacks",
                table.paths.bucket(partition, bucket),
            )


def _finding(what: str, where: str) -> Finding:
    return Finding(kind=FindingKind.HASH_INDEX, what=what, where=where, fix=_FIX)
