"""Defines a tag, a name for a snapshot that keeps its files beyond its expiry.

Source: Paimon `tag/Tag.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A name for a version of the table.

    Attributes:
        create_time_ms: the local wall clock as if UTC, as in Paimon; None if unknown.
        time_retained_ms: the time after which Paimon may delete it; None: never.
    """

    name: str
    snapshot: Snapshot
    create_time_ms: int | None = None
    time_retained_ms: int | None = None
