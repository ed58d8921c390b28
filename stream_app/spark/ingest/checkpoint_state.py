"""Remembers in a checkpoint, besides Spark's own files, for which table and topics it is.

Spark's checkpoint knows offsets, but neither the sink nor the identity of a topic. With another
table a job would skip all records that the first table has read. A topic that was created anew
would lose its first records. The job detects both at start.

The file is ``stream_app.json`` in the checkpoint's folder, on any file system.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from stream_app.errors import CheckpointError
from stream_app.spark.job_folder import Folder

DATABASE = "a whole database"
"""The identity of a database, whose tables have identities of their own."""
_FILE = "stream_app.json"
_NEW = "give the job a new checkpoint folder (stream.checkpoint)"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The state that is kept in the checkpoint.

    Attributes:
        table: the table's folder.
        table_identity: distinguishes a table from a later one at the same place.
        topic_ids: Kafka's id of each topic that was ever read.
        tables: for each topic the source tables that its records name.
    """

    table: str
    table_identity: str
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)


def open_checkpoint(folder: Folder, location: str, identity: str) -> CheckpointState:
    """As `checked_checkpoint`; makes the state when the checkpoint is new."""
    state = checked_checkpoint(folder, location, identity)
    if state is None:
        state = CheckpointState(location, identity)
        _write(folder, state)
    return state


def checked_checkpoint(folder: Folder, location: str, identity: str) -> CheckpointState | None:
    """The state of a checkpoint; None: it is new.

    Args:
        location: the folder of the table; of a whole database, that of its tables.
        identity: of the table; of a whole database `DATABASE`.

    Raises:
        CheckpointError: it belongs to another table, to an earlier table at this place, or to a job
            of other software.
    """
    state = _read(folder)
    if state is None:
        if folder.files.exists(folder.path("offsets")):
            raise CheckpointError(
                "the checkpoint was made by another application",
                where=str(folder),
                fix=_NEW,
            )
        return None
    same_place = state.table == location
    if state.table_identity != identity or (identity == DATABASE and not same_place):
        if same_place:
            what = "the table was dropped and made anew since this checkpoint was begun"
        else:
            what = f"the checkpoint belongs to the table {state.table}, not {location}"
        raise CheckpointError(what, where=str(folder), fix=_NEW)
    return state


def is_begun(folder: Folder) -> bool:
    """Whether a job has started with this checkpoint."""
    return _read(folder) is not None


def remember_topics(folder: Folder, state: CheckpointState, topic_ids: Mapping[str, str]) -> None:
    """Add topics to the state; known topics keep their ids."""
    merged = {**topic_ids, **state.topic_ids}
    if merged != dict(state.topic_ids):
        _write(folder, replace(state, topic_ids=merged))


def remembered_tables(folder: Folder) -> Mapping[str, Sequence[str]]:
    """The remembered source tables of each topic."""
    state = _read(folder)
    return {} if state is None else state.tables


def remember_tables(folder: Folder, tables: Mapping[str, Sequence[str]]) -> None:
    """Save the source tables of each topic; the checkpoint must exist."""
    state = _read(folder)
    assert state is not None, "open_checkpoint comes first"
    _write(folder, replace(state, tables=tables))


def _read(folder: Folder) -> CheckpointState | None:
    try:
        document = json.loads(folder.files.read_bytes(folder.path(_FILE)))
        return CheckpointState(**document)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f"{_FILE} of the checkpoint is damaged: {error}", where=str(folder), fix=_NEW
        ) from None


def _write(folder: Folder, state: CheckpointState) -> None:
    folder.files.overwrite(folder.path(_FILE), json.dumps(asdict(state), indent=2).encode())
