"""Parses the end of an epoch in its source: a text of JSON, with offsets if the source has topics.

The checkpoint has this text (`checkpoint.epoch_log`), and each snapshot of a job in a property.
"""

from __future__ import annotations

import json

from stream_app.model.job_epoch import Offsets


def offsets_of_topics(source_end: str) -> Offsets:
    """Return the offsets at which an epoch of topics ends.

    Raises:
        ValueError: the text is not JSON.
    """
    offsets: Offsets = json.loads(source_end)
    return offsets


def offsets_of_end(source_end: str | None) -> Offsets:
    """Return the offsets in an epoch's end; empty for a source without topics, such as a folder."""
    try:
        document = json.loads(source_end or "{}")
    except ValueError:
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        topic: partitions for topic, partitions in document.items() if isinstance(partitions, dict)
    }
