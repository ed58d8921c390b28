"""Decides whether rows routed by an older index of hashes have the buckets of the newest one.

`table.stream_commit.bucket_state` calls it before rows are written.
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
        before: the replaced file; None for a new bucket.
        open_buckets: the partition's open buckets, by which the epoch was routed.
    """

    before: str | None
    open_buckets: tuple[int, ...]


def is_routed_alike(
    routed_on: Index,
    newest: Index,
    open_in: Callable[[bytes], tuple[int, ...]],
    replacements: Mapping[str, IndexReplacement],
) -> bool:
    """Return whether the newest index assigns each hash the bucket that its rows already have.

    Args:
        routed_on: the index by which rows got their buckets.
        open_in: returns a partition's open buckets, by which the other rows got their buckets.
        replacements: name of the new file → the replacement; other writers' are missing.
    """
    if not routed_on.keys() <= newest.keys():
        return False
    return all(
        _grew_alike(routed_on.get(bucket), file, open_in(bucket[0]), replacements)
        for bucket, file in newest.items()
        if routed_on.get(bucket) != file
    )


def _grew_alike(
    old: str | None,
    new: str,
    open_buckets: tuple[int, ...],
    replacements: Mapping[str, IndexReplacement],
) -> bool:
    """Return whether only epochs with these open buckets replaced a bucket's file until the new
    one.
    """
    file: str | None = new
    while file != old:
        replacement = None if file is None else replacements.get(file)
        if replacement is None or replacement.open_buckets != open_buckets:
            return False
        file = replacement.before
    return True
