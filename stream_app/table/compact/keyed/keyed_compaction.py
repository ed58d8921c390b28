"""Compacts a bucket of a table with a primary key, and writes its changelog and deletion vectors.

`keyed.KEYED_KIND` calls it on an executor. The request names the files. The table's options decide
which older rows the compaction looks up.

Source: Paimon `operation/KeyValueFileStoreWrite.java#createRewriter`,
`deletionvectors/BucketedDvMaintainer.java`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.filestore.manifests.deletion_vector_files import BucketVectors
from stream_app.format.deletion_vector import DeletionVector
from stream_app.mergetree.changelog.before_row_lookup import (
    BeforeRowLookup,
    FirstRowChangelog,
    FullCompactionChangelog,
    HigherLevelLookup,
    LookupChangelog,
)
from stream_app.mergetree.changelog.changelog_rewriter import ChangelogRewriter
from stream_app.mergetree.compact.compact_rewriter import CompactRewriter
from stream_app.mergetree.compact.compact_task import CompactTask, Rewriter
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.options.file_options import DELETION_VECTORS_BITMAP64
from stream_app.model.options.merge_options import (
    CHANGELOG_ROW_DEDUPLICATE,
    CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS,
    IGNORE_DELETE,
)
from stream_app.model.traits.merge_engine import traits_of
from stream_app.table.compact.expired_rows import expired_rows_predicate, record_level_expire
from stream_app.table.file_store_table import SYSTEM_COLUMNS, FileStoreTable
from stream_app.table.lookup.lookup_reader import LookupReader, keys_of_files, lookup_copies
from stream_app.table.versions.deletion_vectors import index_changes


def rewrite_keyed(table: FileStoreTable, request: CompactRequest) -> BucketChange:
    """Run one compaction; a failure deletes its new files.

    Raises:
        CorruptFileError: a file cannot be read.
    """
    if table.merges_by_vectors:
        return _rewrite_with_vectors(table, request)
    merging_rewriter = merge_rewriter(table, table.bucket_files(*request.bucket_id))
    before_row_lookup = _before_row_lookup(table, request, _higher_level_lookup(table, request, {}))
    rewriter = (
        merging_rewriter
        if before_row_lookup is None
        else _changelog_rewriter(table, merging_rewriter, before_row_lookup)
    )
    return _run_task(table, request, rewriter, expired_rows_predicate(table))


def merge_rewriter(table: FileStoreTable, bucket_files: BucketFiles) -> CompactRewriter:
    """Return the rewriter that merges rows by the table's merge engine, without a changelog."""
    return CompactRewriter(
        layout=table.layout(),
        merge_function=table.merge_function,
        file_access=bucket_files,
        record_level_expire=record_level_expire(table),
        fan_in=table.options.sort_spill_threshold,
        keeps_deletes=traits_of(table.options.merge_engine).keeps_deletes,
    )


def _rewrite_with_vectors(table: FileStoreTable, request: CompactRequest) -> BucketChange:
    """Run a compaction that also marks replaced rows of higher levels in deletion vectors."""
    bucket_id = request.bucket_id
    latest_snapshot = table.snapshots.latest()
    index_entries = table.manifests.read_index_manifest(
        latest_snapshot.index_manifest if latest_snapshot else None
    )
    live_entries = [entry for entry in index_entries if entry.bucket_id == bucket_id]
    vectors = table.deletion_vector_files.read_buckets(live_entries).get(bucket_id, {})
    merging_rewriter = merge_rewriter(
        table, replace(table.bucket_files(*bucket_id), vectors=vectors)
    )
    higher_level_lookup = _higher_level_lookup(table, request, vectors)
    before_row_lookup = _before_row_lookup(table, request, higher_level_lookup)
    assert before_row_lookup is not None, "deletion vectors need the rows before a compaction"
    has_expired_rows = expired_rows_predicate(table)
    is_full = request.unit.output_level == request.max_level

    def must_rewrite(file: DataFileMeta) -> bool:
        return (is_full and file.file_name in vectors) or has_expired_rows(file)

    change = _run_task(
        table,
        request,
        _changelog_rewriter(table, merging_rewriter, before_row_lookup),
        must_rewrite,
    )
    try:
        has_64_bits = table.options[DELETION_VECTORS_BITMAP64]
        deleted_vectors = {
            name: DeletionVector.of_positions(np.concatenate(positions), has_64_bits=has_64_bits)
            for name, positions in higher_level_lookup.positions_read.items()
        }
        removed_names = {file.file_name for file in change.removed_files}
        removed_names -= {file.file_name for file in change.added_files}
        changes = index_changes(
            table,
            live_entries,
            bucket_id,
            deleted_names=removed_names,
            deleted_rows=deleted_vectors,
        )
    except BaseException:
        table.discard([change])
        raise
    return replace(change, index_entries=tuple(changes))


def _higher_level_lookup(
    table: FileStoreTable, request: CompactRequest, vectors: BucketVectors
) -> HigherLevelLookup:
    """Return the access to rows of higher levels, or only to their keys if these suffice."""
    columns = table.schema.fields
    system_columns = SYSTEM_COLUMNS
    if _needs_keys_only(table):
        columns = table.schema.key_type
        system_columns = frozenset()
    bucket_id = request.bucket_id
    level0_files = [file for file in request.unit.files if file.level == 0]
    row_reader = LookupReader(
        table=table,
        bucket_id=bucket_id,
        columns=columns,
        system_columns=system_columns,
        read_keys=lambda: keys_of_files(table, bucket_id, level0_files),
        key_count=sum(file.row_count for file in level0_files),
        vectors=vectors,
        copies=lookup_copies(table),
    )
    layout = table.layout(columns, system_columns=system_columns)
    return HigherLevelLookup(layout, row_reader, request.files_above, table.key_of)


def _needs_keys_only(table: FileStoreTable) -> bool:
    """Return whether a compaction uses only the keys of rows in higher levels, not their values."""
    options, traits = table.options, traits_of(table.options.merge_engine)
    needs_positions_only = (
        table.merges_by_vectors
        and traits.keeps_newest
        and not table.schema.sequence_fields
        and not options[IGNORE_DELETE]
        and not options.producer.writes_by_lookup
    )
    return traits.needs_lookup or needs_positions_only


def _before_row_lookup(
    table: FileStoreTable, request: CompactRequest, higher_level_lookup: HigherLevelLookup
) -> BeforeRowLookup | None:
    """Return the source of the rows before a compaction; None if it needs none."""
    options = table.options
    if traits_of(options.merge_engine).needs_lookup:
        return FirstRowChangelog(request.max_level, higher_level_lookup)
    if options.producer.writes_on_full_compaction:
        return FullCompactionChangelog(request.max_level)
    keeps_newest = traits_of(options.merge_engine).keeps_newest
    is_needed = not keeps_newest or table.merges_by_vectors
    if options.looks_up and (is_needed or options.producer.writes_by_lookup):
        return LookupChangelog(
            table.layout(),
            request.max_level,
            higher_level_lookup,
            keeps_newest=keeps_newest and not table.schema.sequence_fields,
            deletes_older=table.merges_by_vectors,
            needs_keys_only=_needs_keys_only(table),
        )
    return None


def _changelog_rewriter(
    table: FileStoreTable, rewriter: CompactRewriter, before_row_lookup: BeforeRowLookup
) -> ChangelogRewriter:
    options = table.options
    return ChangelogRewriter(
        rewriter,
        before_row_lookup,
        writes_changelog=options.producer.by_compaction,
        drops_moved_deletes=table.merges_by_vectors,
        records_unchanged=not options[CHANGELOG_ROW_DEDUPLICATE],
        ignored_columns=frozenset(options.columns(CHANGELOG_ROW_DEDUPLICATE_IGNORE_FIELDS)),
    )


def _run_task(
    table: FileStoreTable,
    request: CompactRequest,
    rewriter: Rewriter,
    must_rewrite: Callable[[DataFileMeta], bool],
) -> BucketChange:
    return CompactTask(
        request=request,
        rewriter=rewriter,
        key_of=table.key_of,
        file_size_min=table.schema.compaction_file_size,
        must_rewrite=must_rewrite,
    ).run()
