"""Defines by which index, or by which numbers of buckets, the rows of an epoch got their buckets.

The driver passes the basis to the tasks that route and write rows. The commit compares it with the
table, and refuses rows whose basis is outdated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class BucketBasis:
    """The index or bucket counts by which an epoch's rows get their buckets.

    Only tables with a hash index have the manifests; otherwise they are None.

    Attributes:
        routed_on: the index manifest by whose hashes the rows got their buckets.
        written_on: the index manifest to which the epoch adds the hashes of new keys.
        snapshot_id: with cross-partition upsert, the snapshot in which keys find their older rows;
            0 for an empty table. None if older rows play no part.
        bucket_counts: partition → its number of buckets, if that differs from the table's.
    """

    routed_on: str | None = None
    written_on: str | None = None
    snapshot_id: int | None = None
    bucket_counts: Mapping[bytes, int] = field(default_factory=dict)


NO_BASIS = BucketBasis()
