"""Table options that ask for work that stream_app's jobs do not do.

A job accepts them, because other engines act on them, and names those of its table when it begins.
Options of reading, of batch jobs, of SQL and of unsupported kinds of tables do not concern a job
and are not here.

Source: Paimon 1.4.2 `CoreOptions.java`, `FlinkConnectorOptions.java`, and the readers of each
option.
"""

from __future__ import annotations

from collections.abc import Mapping

_WRITING = """
async-file-write cache-page-size changelog-file.compression changelog-file.format
changelog-file.stats-mode file.block-size file.suffix.include.compression local-merge-buffer-size
local-sort.max-num-file-handles manifest.delete-file-drop-stats metadata.stats-dense-store
metadata.stats-keep-first-n-columns metadata.stats-mode.per.level page-size
parquet.enable.dictionary partition.sink-strategy sort-engine sort-spill-buffer-size
spill-compression spill-compression.zstd-level write-buffer-for-append write-max-writers-to-spill
write.batch-memory write.batch-size
"""

_LOOKUP = """
lookup.cache-max-memory-size lookup.cache-spill-compression lookup.cache.bloom.filter.enabled
lookup.cache.bloom.filter.fpp lookup.cache.high-priority-pool-ratio lookup.hash-load-factor
lookup.merge-buffer-size lookup.merge-records-threshold lookup.remote-file.enabled
lookup.remote-file.level-threshold
"""

_COMMITTING = """
commit.callbacks commit.custom-listeners commit.discard-duplicate-files
commit.force-create-snapshot commit.strict-mode.last-safe-snapshot commit.user-prefix
metastore.partitioned-table precommit-compact snapshot.ignore-empty-commit
snapshot.watermark-idle-timeout
"""

_UPKEEP = """
end-input.check-partition-expire metastore.tag-to-partition metastore.tag-to-partition.preview
partition.end-input-to-done partition.idle-time-to-done partition.idle-time-to-report-statistic
partition.mark-done-action sink.savepoint.auto-tag tag.batch.customized-name tag.callbacks
"""

IGNORED_KEYS = frozenset(f"{_WRITING} {_LOOKUP} {_COMMITTING} {_UPKEEP}".split())
"""Paimon's keys for what our jobs leave undone."""

_DONE_ANYWAY = {
    "async-file-write": "true",
    "changelog-file.format": "parquet",
    "commit.user-prefix": "",
    "lookup.cache-spill-compression": "none",
    "metadata.stats-dense-store": "true",
    "metadata.stats-keep-first-n-columns": "-1",
    "metastore.tag-to-partition.preview": "none",
    "partition.idle-time-to-report-statistic": "0 ms",
    "partition.sink-strategy": "none",
    "sort-engine": "loser-tree",
    "spill-compression": "lz4",
}
"""Values that ask for nothing else than what is done; of other keys ``false``."""

_IGNORED_PREFIXES = (
    "parquet.",
    "metadata.stats-mode.per.level.",
    "commit.callback.",
    "tag.callback.",
    "metadata.iceberg.",
)


def ignored_options(options: Mapping[str, str]) -> list[str]:
    """The keys of a table's options on which our jobs do not act, in order."""
    return sorted(key for key, value in options.items() if _is_ignored(key, value))


def _is_ignored(key: str, value: str) -> bool:
    if key == "tag.automatic-creation":
        return value.lower() == "batch"
    if key == "metadata.iceberg.storage" and value.lower() == "disabled":
        return False
    if key.startswith("file-index."):  # those of a column; the others are about reading indexes
        return key.endswith(".columns")
    if key.startswith("fields."):
        return key.endswith(".stats-mode")
    if key in IGNORED_KEYS:
        return value.lower() not in ("", _DONE_ANYWAY.get(key, "false"))
    return key.startswith(_IGNORED_PREFIXES)
