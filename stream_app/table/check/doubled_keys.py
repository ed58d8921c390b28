"""Finds keys that have two rows instead of one, and index files that would cause such rows.

In a table with cross-partition upsert a key has one row in all partitions. The check of one
partition cannot see a second row, and readers would show both. The check reads only the key
columns, keeps them on local disk and compares them part by part. So memory does not grow with the
table.

Above level 0 a key may have only one row in a bucket, too.

With ``bucket = -1`` a hash belongs to one bucket of its partition, and the bucket of a row has the
hash of its key. If not, the next change of the key would go to another bucket, and the key would
have two rows.

Paimon has no such check. These classes need the keys to be single:
`crosspartition/GlobalIndexAssigner.java`, `table/source/MergeTreeSplitGenerator.java`
(``deletionVectorsEnabled``, FIRST_ROW), `index/PartitionIndex.java`,
`index/DynamicBucketIndexMaintainer.java`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s
from stream_app.errors import CorruptFileError
from stream_app.format.bucket_hash import hash_columns
from stream_app.format.hash_index import Hashes
from stream_app.mergetree.interval_partition import Section, partition_into_sections
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_entry import files_of_buckets
from stream_app.model.finding import Finding, FindingKind, unreadable
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER
from stream_app.model.snapshot import Snapshot
from stream_app.model.traits.merge_engine import traits_of
from stream_app.planning.key_index.index_rule import IndexRule, index_rule
from stream_app.process.local_disk import scratch_folder
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.key_index.key_index_builder import KeysByShare
from stream_app.table.key_index.key_layer_files import CodedBuckets
from stream_app.table.key_index.table_key_reader import (
    BUCKET_CODE,
    IS_LIVE,
    KeyFile,
    TableKeyReader,
)
from stream_app.table.map_in_threads import map_in_threads, thread_count
from stream_app.table.versions.deletion_vectors import deletion_vectors
from stream_app.table.versions.file_store_scan import FileStoreScan
from stream_app.table.versions.index_manifests import index_manifest
from stream_app.table.write.bucket_assigner import row_codes

PART_ROW_COUNT = 1 << 20
"""Rows whose keys are compared at a time."""
_PARTS_MAX = 256
"""The maximum number of parts of the keys, because each part is an open file."""
_HASH_INDEX_FIX = (
    "roll the table back to a snapshot or tag before it: stream-app rollback-to; or let Paimon "
    "rewrite the partition (INSERT OVERWRITE)"
)


def cross_partition_findings(
    table: FileStoreTable, snapshot: Snapshot, *, part_row_count: int = PART_ROW_COUNT
) -> Iterator[Finding]:
    """Yield one finding if a key has several rows; none without cross-partition upsert.

    Args:
        part_row_count: the approximate number of rows that are compared at a time.

    Raises:
        CorruptFileError: a file cannot be read; the caller reports that as another finding.
        UnsupportedTableError: a data file has a format that stream_app cannot read.
    """
    if (rule := index_rule(table.schema)) is None:
        return
    coded_buckets = CodedBuckets()
    count, example = 0, ""
    for part in _parts_by_key(table, snapshot, rule, coded_buckets, part_row_count):
        doubled_pairs = doubled_rows(part, part.select(rule.keys))
        count += len(doubled_pairs)
        if len(doubled_pairs) and not example:
            example = _example(table, coded_buckets, part, doubled_pairs[0], rule.keys)
    if count:
        yield Finding(
            kind=FindingKind.DOUBLE_KEYS,
            problem=f"{count} keys have rows in several places of the table, such as {example}; "
            "readers show them all",
            where=table.location,
            fix="delete the wrong rows in their partition, such as by DELETE FROM of Paimon's "
            "Spark, or all by stream-app backfill; and let only one job write the table",
        )


def doubled_keys(table: FileStoreTable, snapshot: Snapshot) -> pa.RecordBatch | None:
    """Return the keys that have rows in several buckets, in columns of the key index; else None.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    if (rule := index_rule(table.schema)) is None:
        return None
    doubled_parts: list[pa.RecordBatch] = []
    for part in _parts_by_key(table, snapshot, rule, CodedBuckets(), PART_ROW_COUNT):
        keys = part.select(rule.keys)
        doubled_pairs = doubled_rows(part, keys)
        if len(doubled_pairs):
            doubled_parts.append(keys.take(pa.array(doubled_pairs[:, 0])))
    return pa.concat_batches(doubled_parts) if doubled_parts else None


def _parts_by_key(
    table: FileStoreTable,
    snapshot: Snapshot,
    rule: IndexRule,
    coded_buckets: CodedBuckets,
    part_row_count: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the keys of all rows in parts, each with all rows of its keys.

    A part has the columns of `TableKeyReader.keys_schema`.
    """
    files = [
        KeyFile(entry, coded_buckets.code(entry.bucket_id))
        for entry in FileStoreScan(table).live(snapshot)
    ]
    row_count = sum(file.entry.file.row_count for file in files)
    part_count = min(row_count // part_row_count + 1, _PARTS_MAX)
    rule = replace(rule, share_count=part_count, fills_buckets=True)
    key_reader = TableKeyReader(table, rule, deletion_vectors(table, snapshot))
    with scratch_folder("check") as folder:
        keys_by_share = KeysByShare(key_reader, Path(folder))
        map_in_threads(thread_count(table), keys_by_share.add, files)
        keys_by_share.finish()
        for part in range(part_count):
            yield pa.concat_batches([key_reader.no_keys(), *keys_by_share.keys_of(part)])


def doubled_rows(key_rows: pa.RecordBatch, keys: pa.RecordBatch) -> Int64s:
    """Return two rows from different buckets for each key that has them: int64 [keys, 2].

    Args:
        key_rows: columns of `TableKeyReader.keys_schema`, in any order.
        keys: the columns of the key among them.
    """
    codes = row_codes(keys.columns, keys.num_rows)
    bucket_code = key_rows.column(BUCKET_CODE).to_numpy()
    sequence = key_rows.column(SEQUENCE_NUMBER).to_numpy()
    # By key, bucket and sequence number: the newest row of a key comes last in its bucket.
    order = np.lexsort((sequence, bucket_code, codes))
    is_newest = np.ones(len(order), np.bool_)
    is_newest[:-1] = np.diff(codes[order]).astype(np.bool_) | np.diff(bucket_code[order]).astype(
        np.bool_
    )
    rows = order[is_newest]
    rows = rows[key_rows.column(IS_LIVE).to_numpy(zero_copy_only=False)[rows]]
    pairs = np.column_stack([rows[:-1], rows[1:]])
    pairs = pairs[codes[pairs[:, 0]] == codes[pairs[:, 1]]]
    _, first_pairs = np.unique(codes[pairs[:, 0]], return_index=True)
    return np.asarray(pairs[first_pairs])


def _example(
    table: FileStoreTable,
    coded_buckets: CodedBuckets,
    key_rows: pa.RecordBatch,
    pair: Int64s,
    names: tuple[str, ...],
) -> str:
    values = key_rows.slice(int(pair[0]), 1).to_pylist()[0]
    ids = (coded_buckets.ids[key_rows.column(BUCKET_CODE)[int(row)].as_py()] for row in pair)
    folders = sorted(table.paths.bucket_folder(*bucket_id) for bucket_id in ids)
    where = " and ".join(folder.removeprefix(f"{table.location}/") for folder in folders)
    return ", ".join(f"{name} = {values[name]}" for name in names) + f" in {where}"


@dataclass(frozen=True, slots=True)
class DoubledKeySearch:
    """A search of a snapshot for keys with two rows, in tables whose readers do not merge.

    These tables have ``deletion-vectors.enabled``, or a merge engine that looks up every key. Above
    level 0, their compactions mark or drop the older row.
    """

    table: FileStoreTable
    snapshot: Snapshot

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each bucket with such keys; none if readers merge.

        Raises:
            CorruptFileError: a file cannot be read, which is a finding of another kind.
        """
        engine_looks_up = traits_of(self.table.options.merge_engine).needs_lookup
        if not (
            self.table.merges_by_vectors
            or (self.table.kind_traits.merges_by_key and engine_looks_up)
        ):
            return
        live_entries = FileStoreScan(self.table).live(self.snapshot)
        upper_entries = (entry for entry in live_entries if entry.file.level > 0)
        for bucket_id, files in files_of_buckets(upper_entries).items():
            sections = partition_into_sections(files, self.table.key_of)
            overlapping_sections = [section for section in sections if len(section) > 1]
            count, example = self._count_doubled(bucket_id, overlapping_sections)
            if count:
                yield Finding(
                    kind=FindingKind.DOUBLE_KEYS,
                    problem=f"{count} keys have more than one row above level 0, such as {example}"
                    "; readers show them all",
                    where=self.table.paths.bucket_folder(*bucket_id),
                    fix="compact the bucket whole: stream-app compact --full",
                )

    def _count_doubled(self, bucket_id: BucketId, sections: list[Section]) -> tuple[int, str]:
        """Return the number of keys with several live rows, and the first such key as text."""
        count, example = 0, ""
        if not sections:
            return count, example
        table = self.table
        no_system_columns = frozenset[str]()
        keys = table.schema.key_type
        layout = replace(table.layout(keys, system_columns=no_system_columns), sequence_fields=())
        vectors = deletion_vectors(table, self.snapshot, [bucket_id]).get(bucket_id, {})
        bucket_files = table.bucket_files(
            *bucket_id, columns=keys, system_columns=no_system_columns
        )
        live_row_files = replace(bucket_files, vectors=vectors)
        for section in sections:
            runs = (
                (batch for file in run.files for batch in live_row_files.read(file))
                for run in section
            )
            for window in merge_windows([*runs], layout):
                is_last = window.is_last_row(layout)
                if (extra_rows := len(is_last) - int(is_last.sum())) == 0:
                    continue
                if not count:
                    index = int((~is_last).argmax())
                    row_index = index if window.order is None else int(window.order[index])
                    values = window.batch.slice(row_index, 1).to_pylist()[0]
                    example = ", ".join(f"{name} = {values[name]}" for name in keys.names)
                count += extra_rows
        return count, example


def hash_index_findings(table: FileStoreTable) -> Iterator[Finding]:
    """Yield problems of the hash index, with four bytes of memory for each key of a partition.

    Raises:
        UnsupportedTableError: a data file has a format that stream_app does not read.
    """
    try:
        latest_snapshot = table.snapshots.latest()
    except CorruptFileError:
        return  # the check of snapshots reports it
    if latest_snapshot is None:
        return
    files: dict[bytes, dict[int, list[DataFileMeta]]] = defaultdict(lambda: defaultdict(list))
    try:
        index = index_manifest(table, latest_snapshot.index_manifest).hash_entries
        for entry in FileStoreScan(table).live(latest_snapshot):
            files[entry.partition][entry.bucket].append(entry.file)
        for partition in sorted(files.keys() | index.keys()):
            hashes = {
                bucket: table.hash_index_files.read(entry)
                for bucket, entry in index.get(partition, {}).items()
            }
            where = table.paths.partition_folder(partition)
            yield from _repeated_hash_findings(hashes, where)
            yield from _unknown_hash_findings(table, partition, files[partition], hashes)
    except CorruptFileError as error:
        if table.snapshots.exists(latest_snapshot.snapshot_id):
            yield unreadable(error, table.location)


def _repeated_hash_findings(hashes: Mapping[int, Hashes], where: str) -> Iterator[Finding]:
    if not hashes:
        return
    distinct_hashes, counts = np.unique(np.concatenate([*hashes.values()]), return_counts=True)
    repeated_hashes = distinct_hashes[counts > 1]
    if not len(repeated_hashes):
        return
    buckets = [
        bucket
        for bucket, bucket_hashes in sorted(hashes.items())
        if repeated_hashes[0] in bucket_hashes
    ]
    yield _hash_index_finding(
        f"the index has {len(repeated_hashes)} hashes of keys twice, such as {repeated_hashes[0]} "
        "of bucket " + " and ".join(map(str, buckets)),
        where,
    )


def _unknown_hash_findings(
    table: FileStoreTable,
    partition: bytes,
    files: Mapping[int, Sequence[DataFileMeta]],
    hashes: Mapping[int, Hashes],
) -> Iterator[Finding]:
    """Yield a finding for each bucket with keys whose hashes its index lacks."""
    keys = table.schema.key_type
    for bucket, bucket_files in sorted(files.items()):
        bucket_access = table.bucket_files(partition, bucket, columns=keys, system_columns=())
        listed_hashes = hashes.get(bucket, np.empty(0, np.int32))
        unknown_count = sum(
            int(np.count_nonzero(~np.isin(hash_columns(batch.columns, keys.types), listed_hashes)))
            for file in bucket_files
            for batch in bucket_access.read(file)
        )
        if unknown_count:
            yield _hash_index_finding(
                f"{unknown_count} rows have keys that the bucket's index lacks",
                table.paths.bucket_folder(partition, bucket),
            )


def _hash_index_finding(problem: str, where: str) -> Finding:
    return Finding(kind=FindingKind.HASH_INDEX, problem=problem, where=where, fix=_HASH_INDEX_FIX)
