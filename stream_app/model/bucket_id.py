"""Identifies a bucket of a table."""

from __future__ import annotations

BucketId = tuple[bytes, int]
"""The partition, as a serialized BinaryRow of the partition columns, and the bucket's number."""

POSTPONED = -2
"""The number of ``bucket-postpone``, whose rows still get their buckets; it is no real bucket."""

NOT_FIXED = -1
"""The option ``bucket`` of a table that has no fixed number of buckets."""
