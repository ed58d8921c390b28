"""Computes a commit's changes to the partition statistics that catalogs keep.

Source: Paimon `partition/PartitionStatistics.java`, `manifest/PartitionEntry.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from stream_app.model.files.manifest_entry import FileKind, ManifestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """The changes of one partition's statistics; negative for losses.

    Attributes:
        spec: column → the partition's value as text.
        newest_file_time_ms: the creation time of its newest file, in ms since 1970 in UTC.
        total_buckets: the number of buckets in its newest file's entry.
    """

    spec: Mapping[str, str]
    record_count: int = 0
    file_size: int = 0
    file_count: int = 0
    newest_file_time_ms: int = 0
    total_buckets: int = 0


def partition_statistics(
    entries: Iterable[ManifestEntry],
    *,
    spec_of: Callable[[bytes], Mapping[str, str]],
    utc_ms_of: Callable[[int], int],
) -> list[PartitionStatistics]:
    """Return the changes of each partition, in the order of the entries.

    Args:
        entries: the entries of data files.
        spec_of: returns the values of a serialized partition.
        utc_ms_of: converts files' local wall-clock times to UTC.
    """
    statistics_by_partition: dict[bytes, PartitionStatistics] = {}
    for entry in entries:
        statistics = statistics_by_partition.get(entry.partition) or PartitionStatistics(
            spec=spec_of(entry.partition)
        )
        sign = 1 if entry.kind is FileKind.ADD else -1
        creation_time_ms = entry.file.creation_time_ms
        statistics_by_partition[entry.partition] = replace(
            statistics,
            record_count=statistics.record_count + sign * entry.file.row_count,
            file_size=statistics.file_size + sign * entry.file.file_size,
            file_count=statistics.file_count + sign,
            newest_file_time_ms=max(
                statistics.newest_file_time_ms,
                0 if creation_time_ms is None else utc_ms_of(creation_time_ms),
            ),
            total_buckets=entry.total_buckets,
        )
    return list(statistics_by_partition.values())
