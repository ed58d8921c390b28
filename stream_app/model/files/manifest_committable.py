"""Defines the changes that one snapshot commits.

Source: Paimon `manifest/ManifestCommittable.java`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.model.files.bucket_change import BucketChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestCommittable:
    """The changes that one snapshot commits.

    Attributes:
        identifier: the epoch, which increases with each commit of a user.
        changes: the changes of the buckets; an APPEND may have none.
        properties: the snapshot's properties, such as source offsets.
    """

    identifier: int
    changes: tuple[BucketChange, ...] = ()
    watermark: int | None = None
    properties: Mapping[str, str] | None = None
