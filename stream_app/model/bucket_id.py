"""Identifies a bucket of a table."""

from __future__ import annotations

from typing import NamedTuple

POSTPONED = -2
"""The number of ``bucket-postpone``, a folder of rows that a compaction moves to their buckets."""
NOT_FIXED = -1
"""The option ``bucket`` of a table that has no fixed number of buckets."""


class BucketId(NamedTuple):
    """The identity of a bucket in a table.

    Attributes:
        partition: a serialized BinaryRow of the partition columns.
        bucket: the bucket's number in the partition.
    """

    partition: bytes
    bucket: int
