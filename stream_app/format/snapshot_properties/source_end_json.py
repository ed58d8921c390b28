"""Decodes an epoch's end in its source from a snapshot property."""

from __future__ import annotations

import json

from stream_app.model.job_epoch import Offsets


def offsets_of_end(end: str | None) -> Offsets:
    """Return the offsets in an epoch's end; empty for a source without topics, such as a folder."""
    try:
        document = json.loads(end or "{}")
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        topic: partitions for topic, partitions in document.items() if isinstance(partitions, dict)
    }
