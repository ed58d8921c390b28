"""A name for a snapshot, which keeps its files beyond its expiry.

Source: Paimon `tag/Tag.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a version of the table.

    Attributes:
        create_time_ms: local wall clock read as if UTC, as Paimon does; None when it is unknown.
        time_retained_ms: after which Paimon may delete it; None: never.
    """

    name: str
    snapshot: Snapshot
    create_time_ms: int | None = None
    time_retained_ms: int | None = None
