"""The newest epochs of a table's jobs as the text of a snapshot's property.

One object, with each commit user's epoch under its name: ``{"user": {"identifier": 7, "timeMillis":
1767225600000, "sourceEnd": "…"}}``. Other engines hand properties on or drop them, and read none.
"""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from stream_app.errors import CorruptFileError
from stream_app.format.json_object import JsonObject
from stream_app.model.job_epoch import EPOCHS_PROPERTY, JobEpoch

_WHAT = f"snapshot's {EPOCHS_PROPERTY}"


def encode_epochs(epochs: Mapping[str, JobEpoch]) -> str:
    """The text for commit users' epochs; users in the order of their names."""
    return orjson.dumps(
        {
            user: {
                "identifier": epoch.identifier,
                "timeMillis": epoch.time_millis,
                **({} if epoch.source_end is None else {"sourceEnd": epoch.source_end}),
            }
            for user, epoch in sorted(epochs.items())
        }
    ).decode()


def decode_epochs(text: str) -> dict[str, JobEpoch]:
    """The epochs by commit user.

    Raises:
        CorruptFileError: the text does not say them.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CorruptFileError(f"cannot read a {_WHAT}: {error}") from error
    if not isinstance(value, dict):
        raise CorruptFileError(f"cannot read a {_WHAT}: it is {value!r}")
    return {user: _epoch(JsonObject(entry, what=_WHAT)) for user, entry in value.items()}


def _epoch(entry: JsonObject) -> JobEpoch:
    return JobEpoch(
        identifier=entry.integer("identifier"),
        time_millis=entry.integer("timeMillis"),
        source_end=entry.optional_text("sourceEnd"),
    )
