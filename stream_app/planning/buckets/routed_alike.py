"""Decides whether rows that got their buckets by an older index are still right.

An epoch is routed while the one before is written (docs/adr/0021-epochs-overlap.md). So it does not
know that epoch's new hashes, and gives them buckets itself. Both give a hash the same bucket, if
they had the same open buckets in its partition.

An index is a mapping here: bucket → name of its file. A file never changes.

Source: none. Paimon's assigners keep their state from epoch to epoch (`index/PartitionIndex.java`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stream_app.model.bucket_id import BucketId

Index = Mapping[BucketId, str]


@dataclass(frozen=True, slots=True)
class IndexStep:
    """An epoch of this job has replaced a bucket's file.

    Attributes:
        before: the replaced file; None: the bucket is new.
        open_buckets: of its partition, by which the epoch was routed.
    """

    before: str | None
    open_buckets: tuple[int, ...]


def is_routed_alike(
    routed_on: Index,
    newest: Index,
    open_in: Callable[[bytes], tuple[int, ...]],
    steps: Mapping[str, IndexStep],
) -> bool:
    """Whether no hash of the newest index has another bucket than the rows were given.

    Args:
        routed_on: the index by which rows got their buckets.
        open_in: the open buckets of a partition, by which the others got theirs.
        steps: by the name of the new file; those of other writers are missing.
    """
    if not routed_on.keys() <= newest.keys():
        return False
    return all(
        _grew_alike(routed_on.get(bucket), file, open_in(bucket[0]), steps)
        for bucket, file in newest.items()
        if routed_on.get(bucket) != file
    )


def _grew_alike(
    old: str | None, new: str, open_buckets: tuple[int, ...], steps: Mapping[str, IndexStep]
) -> bool:
    """Whether epochs with these open buckets made one file of a bucket out of another one."""
    file: str | None = new
    while file != old:
        step = None if file is None else steps.get(file)
        if step is None or step.open_buckets != open_buckets:
            return False
        file = step.before
    return True
