"""Parses the end of an epoch in its source: a text of JSON, with offsets if the source has topics.

The checkpoint has this text (`checkpoint.epoch_log`), and each snapshot of a job in a property.
"""

from __future__ import annotations

import json

from stream_app.model.job_epoch import Offsets


def offsets_of_topics(source_end: str) -> Offsets:
    """Return the offsets in an epoch's end; empty for a source without topics, such as a folder.

    Raises:
        ValueError: the text is not a JSON object.
    """
    document = json.loads(source_end)
    if not isinstance(document, dict):
        raise ValueError(f"an epoch's end is not a JSON object: {source_end[:100]!r}")
    return {
        topic: topic_offsets
        for topic, topic_offsets in document.items()
        if isinstance(topic_offsets, dict)
    }


def offsets_of_end(source_end: str | None) -> Offsets:
    """Return the offsets in the end that a snapshot records; empty if it is another writer's text.

    The Python API commits epochs with texts of its caller.
    """
    try:
        return offsets_of_topics(source_end or "{}")
    except ValueError:
        return {}
