"""Checks whether the file indexes of a table's latest version are readable.

A read ignores an index of an unknown kind, and opens more files. A damaged index fails the reads
that use it.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator

from stream_app.filestore.data.file_index_writer import INDEX_SUFFIX
from stream_app.format.file_index.container import decode_file_index
from stream_app.format.file_index.file_index_registry import FILE_INDEX_KINDS
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import Snapshot
from stream_app.table.conditions.index_pruning import INDEX_FIX
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan


def file_index_findings(
    table: FileStoreTable, snapshot: Snapshot, unchecked_parts: list[str]
) -> Iterator[Finding]:
    """Yield a finding for each unreadable index.

    Args:
        unchecked_parts: a list to which the check adds a text for each column that has indexes of
            an unknown kind.
    """
    unknown_kinds: Counter[tuple[str, str]] = Counter()
    for entry in FileStoreScan(table).live(snapshot):
        for path, index in _indexes(table, entry.bucket_id, entry.file):
            try:
                bodies = decode_file_index(index)
            except (struct.error, ValueError, IndexError) as error:
                yield Finding(
                    kind=FindingKind.FILE_UNREADABLE,
                    problem=f"the index of the data file {entry.file.file_name} is damaged: "
                    f"{error}",
                    where=path,
                    fix=INDEX_FIX,
                )
                continue
            for column, by_kind in bodies.items():
                unknown_kinds.update(
                    (column, kind) for kind in by_kind.keys() - FILE_INDEX_KINDS.keys()
                )
    for (column, kind), count in sorted(unknown_kinds.items()):
        unchecked_parts.append(
            f"{count} file indexes of column {column!r}, of the kind {kind!r}, which stream_app "
            f"does not support: reads do without them. Index the column by "
            f"{' or '.join(FILE_INDEX_KINDS)}"
        )


def _indexes(
    table: FileStoreTable, bucket_id: BucketId, file: DataFileMeta
) -> Iterator[tuple[str, bytes]]:
    """Yield a data file's indexes and their paths; another check reports a missing file."""
    if file.embedded_index is not None:
        yield f"{table.paths.bucket_folder(*bucket_id)}/{file.file_name}", file.embedded_index
    for path in table.paths.extra_files(*bucket_id, file):
        if path.endswith(INDEX_SUFFIX) and table.file_io.exists(path):
            yield path, table.file_io.read_bytes(path)
