"""Encodes the newest epoch of each job as a snapshot property.

The rules are in `planning.commit.job_epochs`.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject
from stream_app.model.job_epoch import EPOCHS_PROPERTY, JobEpoch
from stream_app.model.snapshot import Snapshot

_PROPERTY = f"snapshot's {EPOCHS_PROPERTY}"


def encode_epochs(epochs: Mapping[str, JobEpoch]) -> str:
    """Return the text: ``{"user": {"identifier": 7, "timeMillis": 1767225600000, …}}``."""
    return orjson.dumps(
        {
            user: {
                "identifier": epoch.identifier,
                "timeMillis": epoch.time_ms,
                **({} if epoch.source_end is None else {"sourceEnd": epoch.source_end}),
            }
            for user, epoch in sorted(epochs.items())
        }
    ).decode()


def decode_epochs(text: str) -> dict[str, JobEpoch]:
    """Decode the epochs by commit user.

    Raises:
        CorruptFileError: the text has another form.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptFileError(f"cannot read a {_PROPERTY}: {error}") from error
    if not isinstance(value, dict):
        raise CorruptFileError(f"cannot read a {_PROPERTY}: it is {value!r}")
    return {user: _epoch(JsonObject(entry, file_kind=_PROPERTY)) for user, entry in value.items()}


def _epoch(entry: JsonObject) -> JobEpoch:
    return JobEpoch(
        identifier=entry.integer("identifier"),
        time_ms=entry.integer("timeMillis"),
        source_end=entry.optional_text("sourceEnd"),
    )


def recorded_epochs(snapshot: Snapshot) -> dict[str, JobEpoch] | None:
    """Return the epochs that a snapshot records, by commit user; None if it records none.

    Raises:
        CorruptFileError: the property cannot be read.
    """
    text = (snapshot.properties or {}).get(EPOCHS_PROPERTY)
    try:
        return None if text is None else decode_epochs(text)
    except CorruptFileError as error:
        raise CorruptFileError(
            error.problem,
            where=f"snapshot {snapshot.snapshot_id}",
            fix="restore the snapshot's file from a backup, or roll the table back",
        ) from error
