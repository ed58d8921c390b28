"""Decides which partitions are rescaled, and which files are split together.

`table.overwrite.rescale` executes the plan.

Source: Paimon `flink/action/RescaleAction.java`, which reads and writes a partition whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from stream_app.model.bucket_id import POSTPONED
from stream_app.model.files.manifest_entry import ManifestEntry
from stream_app.planning.buckets.bucket_advice import BucketSize, bucket_advice


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRescale:
    """A partition whose number of buckets changes.

    Attributes:
        partition: the serialized partition.
        old_bucket_count, new_bucket_count: the current and the new number of buckets.
        file_count, byte_count: the numbers of files and bytes of the partition's files.
    """

    partition: bytes
    old_bucket_count: int
    new_bucket_count: int
    file_count: int
    byte_count: int


def planned_rescales(
    live_entries: Iterable[ManifestEntry], wanted_count: int | None
) -> list[PlannedRescale]:
    """Return the partitions whose number of buckets changes, in the order of their first files.

    Args:
        live_entries: the files of the partitions that may change, of which those in
            ``bucket-postpone`` do not count.
        wanted_count: the number of buckets for all; None: the number that fits the size of each.
    """
    partitions: dict[bytes, list[ManifestEntry]] = {}
    for entry in live_entries:
        if entry.bucket == POSTPONED:
            continue
        partitions.setdefault(entry.partition, []).append(entry)
    rescales = []
    for partition, entries in partitions.items():
        old_bucket_count = entries[0].total_buckets
        new_bucket_count = (
            fitting_bucket_count(entries, old_bucket_count)
            if wanted_count is None
            else wanted_count
        )
        if any(entry.total_buckets != new_bucket_count for entry in entries):
            rescales.append(
                PlannedRescale(
                    partition=partition,
                    old_bucket_count=old_bucket_count,
                    new_bucket_count=new_bucket_count,
                    file_count=len(entries),
                    byte_count=sum(entry.file.file_size for entry in entries),
                )
            )
    return rescales


def fitting_bucket_count(entries: Sequence[ManifestEntry], old_bucket_count: int) -> int:
    """Return the fitting number of buckets: the current one without other `bucket_advice`."""
    buckets: dict[int, list[ManifestEntry]] = {}
    for entry in entries:
        buckets.setdefault(entry.bucket, []).append(entry)
    sizes = [
        BucketSize(
            partition=b"",
            row_count=sum(entry.file.row_count for entry in files),
            byte_count=sum(entry.file.file_size for entry in files),
        )
        for files in buckets.values()
    ]
    advice = bucket_advice(sizes, bucket_count=old_bucket_count, width=1, target_row_count=1)
    return old_bucket_count if advice is None else advice.value


def split_groups(
    entries: Iterable[ManifestEntry], bucket_count: int, *, has_keys: bool = True
) -> list[tuple[ManifestEntry, ...]]:
    """Group the files of a partition that are split together, because they share a sorted run.

    1. A file of level 0 is split alone, and stays a separate run in each bucket.
    2. A level above 0 is one run in each bucket. The rows of old bucket *b* go to the new buckets
       *n* with b ≡ n modulo the greatest common divisor of both numbers. So the level's files of
       the old buckets with the same remainder are merged.
    3. Without a key, rows have an order in their bucket. So all files are split together, in an
       order that keeps each bucket's order.

    Args:
        bucket_count: the new number of buckets.
        has_keys: whether the table has a primary key.
    """
    if not has_keys:
        ordered_entries = sorted(
            entries,
            key=lambda entry: (entry.file.min_sequence_number, entry.bucket, entry.file.file_name),
        )
        return [tuple(ordered_entries)] if ordered_entries else []
    groups: list[tuple[ManifestEntry, ...]] = []
    levels: dict[tuple[int, int], list[ManifestEntry]] = {}
    for entry in entries:
        if entry.file.level == 0:
            groups.append((entry,))
        else:
            remainder = entry.bucket % gcd(entry.total_buckets, bucket_count)
            levels.setdefault((entry.file.level, remainder), []).append(entry)
    return groups + [tuple(members) for _, members in sorted(levels.items())]
