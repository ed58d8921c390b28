"""Decides whether rows routed by an older index of hashes have the buckets of the newest one.

`table.job.bucket_state` calls it before rows are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId

Index = Mapping[BucketId, str]


@dataclass(frozen=True, slots=True)
class IndexReplacement:
    """The replacement of a bucket's file by an epoch of this job.

    Attributes:
        old_file_name: the name of the replaced file; None for a new bucket.
        open_buckets: the partition's open buckets, by which the epoch was routed.
    """

    old_file_name: str | None
    open_buckets: tuple[int, ...]


def is_routed_alike(
    routed_index: Index,
    latest_index: Index,
    open_buckets_of: Callable[[bytes], tuple[int, ...]],
    replacements: Mapping[str, IndexReplacement],
) -> bool:
    """Return whether the newest index assigns each hash the bucket that its rows already have.

    Args:
        routed_index: the index by which rows got their buckets.
        open_buckets_of: returns a partition's open buckets, by which other rows got their buckets.
        replacements: name of the new file → the replacement; other writers' are missing.
    """
    if not routed_index.keys() <= latest_index.keys():
        return False
    return all(
        _grew_alike(
            routed_index.get(bucket_id),
            file_name,
            open_buckets_of(bucket_id.partition),
            replacements,
        )
        for bucket_id, file_name in latest_index.items()
        if routed_index.get(bucket_id) != file_name
    )


def _grew_alike(
    old_file_name: str | None,
    new_file_name: str,
    open_buckets: tuple[int, ...],
    replacements: Mapping[str, IndexReplacement],
) -> bool:
    """Return whether only epochs with these open buckets made the new file from the old."""
    file_name: str | None = new_file_name
    while file_name != old_file_name:
        replacement = None if file_name is None else replacements.get(file_name)
        if replacement is None or replacement.open_buckets != open_buckets:
            return False
        file_name = replacement.old_file_name
    return True
