"""Sorts the rows of a table's partitions, for ``stream-app compact --order-strategy``.

`compact_job` calls it. Each partition becomes one request and one COMPACT snapshot. So rows that
writers append meanwhile stay, and streaming readers see no change. Paimon instead overwrites the
partitions with the rows that they had when it began.

Source: Paimon `spark/procedure/CompactProcedure.java#sortCompactUnAwareBucketTable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import as_completed

from stream_app.app.table_setup.compaction_settings import CompactionSettings
from stream_app.app.text.listing import count_text, size_text
from stream_app.errors import CompactionError, StreamAppError
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.commit.batch_commit import batch_commit
from stream_app.table.compact.append.append_task import sorted_requests


def plan_sorting(settings: CompactionSettings) -> list[CompactRequest]:
    """Return the requests to sort partitions, one for each.

    Raises:
        UsageError, UnsupportedTableError: see `sorted_requests`.
    """
    assert settings.row_order is not None, "the caller knows that there is an order"
    snapshot = settings.table.snapshots.latest()
    buckets = settings.partition_filter.buckets(settings.table, snapshot)
    return sorted_requests(settings.table, snapshot, settings.row_order, buckets)


def sort_partitions(settings: CompactionSettings, executor: CompactExecutor) -> Iterator[str]:
    """Sort the partitions, commit each when it is ready, and yield one line of text for each.

    Raises:
        CompactionError: some partitions could not be sorted; the others are committed.
    """
    table, requests = settings.table, plan_sorting(settings)
    commit = batch_commit(table)
    failures: list[str] = []
    futures = {executor.submit(request): request for request in requests}
    for future in as_completed(futures):
        request = futures[future]
        name = table.paths.partition_path(request.partition) or "the table"
        try:
            change = future.result()
        except (StreamAppError, OSError) as error:
            failures.append(f"{name}: {error}")
            continue
        committable = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER, changes=(change,))
        outcome = commit.commit_compactions(committable)
        if outcome.conflict:
            table.discard([change])
            yield f"{name}: dropped, because another writer was faster: {outcome.conflict}"
        else:
            yield f"{name}: {_sizes(change)}, {request.unit.reason}"
    yield f"{count_text(len(requests) - len(failures), 'partition')} done"
    if failures:
        raise CompactionError(
            f"{count_text(len(failures), 'partition')} could not be sorted: " + "; ".join(failures),
            where=table.location,
            fix="remove the cause, and repeat the command",
        )


def _sizes(change: BucketChange) -> str:
    before, after = (
        f"{count_text(len(files), 'file')} ({size_text(sum(file.file_size for file in files))})"
        for files in (change.removed_files, change.added_files)
    )
    return f"{before} → {after}"
