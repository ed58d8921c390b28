"""Compares two versions of a bucket, and returns the rows that differ.

Keys of a section whose files all belong to both versions have the same rows in both. So the
comparison skips such sections, unless the deletion vector of a file has changed. It merges the
other sections on each side, and compares the results in columns, in key order.

Paimon skips every file that both versions have. That is faster, and wrong in both directions. It
misses a row that such a file deletes, if the row is written again with its old values. It reports a
row that was rewritten with the values in such a file. It also reports a row that was added and
deleted between the two versions.

Source: Paimon `table/source/splitread/IncrementalDiffSplitRead.java`,
`table/source/snapshot/SnapshotReaderImpl.java#toIncrementalPlan`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.mergetree.file_access import KeyValueFileReader
from stream_app.mergetree.interval_partition import partition_into_sections
from stream_app.mergetree.key_differences import differences
from stream_app.mergetree.merged_section import merged_section, without_deletes
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta, KeyOrder
from stream_app.table.file_store_table import FileStoreTable


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketVersion:
    """A bucket in one version.

    Attributes:
        vectors: name of a data file → deletion vector.
    """

    files: Sequence[DataFileMeta] = ()
    vectors: BucketVectors = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiffRead:
    """A comparison of versions of buckets.

    Attributes:
        keeps_deletes: whether to return deleted rows too, as -D with their old values.
    """

    table: FileStoreTable
    keeps_deletes: bool

    def read(
        self, bucket_id: BucketId, before: BucketVersion, after: BucketVersion
    ) -> Iterator[pa.RecordBatch]:
        """Yield added and changed rows as key-value batches, in key order.

        Raises:
            CorruptFileError: a file cannot be read.
        """
        file_reader = self.table.bucket_files(*bucket_id)
        changed_vectors = {
            name
            for name in before.vectors.keys() | after.vectors.keys()
            if before.vectors.get(name) != after.vectors.get(name)
        }
        read_files = changed_files(self.table.key_of, before.files, after.files, changed_vectors)
        sides = [
            merged_rows(
                self.table,
                replace(file_reader, vectors=side.vectors),
                [file for file in side.files if file in read_files],
            )
            for side in (before, after)
        ]
        for window in differences(self.table.layout(), *sides):
            rows = window.rows(keeps_deletes=self.keeps_deletes)
            if rows.num_rows:
                yield rows


def changed_files(
    key_of: KeyOrder,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    changed_vectors: Collection[str] = (),
) -> set[DataFileMeta]:
    """Return the files of sections in which a file, or the vector of a file, differs.

    Args:
        changed_vectors: names of files whose deletion vectors differ.
    """
    unshared_files = set(before) ^ set(after)
    sections = partition_into_sections([*before, *(unshared_files & set(after))], key_of)
    section_files = [{file for run in section for file in run.files} for section in sections]
    differing_files = unshared_files | {
        file for file in before if file.file_name in changed_vectors
    }
    return set().union(*(files for files in section_files if files & differing_files))


def merged_rows(
    table: FileStoreTable,
    file_reader: KeyValueFileReader,
    files: Sequence[DataFileMeta],
    *,
    keeps_deletes: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the newest row of each key as key-value batches, in key order.

    Args:
        keeps_deletes: whether to return a key's newest row even if it is a delete.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    layout = table.layout()
    for section in partition_into_sections(files, table.key_of):
        for batch in merged_section(section, layout, table.merge_function, file_reader):
            yield batch if keeps_deletes else without_deletes(batch)
