"""What a checkpoint remembers besides Spark's own files: for which table and topics it is.

Spark's checkpoint knows offsets, but neither the sink nor which topic of that name it read. A
checkpoint that is used with another table would skip all that the old one had read, and a topic
that was made anew would lose its first records. Both are noticed here, at start.

The file is ``stream_app.json`` in the checkpoint's folder, on whatever file system that is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from stream_app.errors import CheckpointError
from stream_app.spark.job_folder import Folder
from stream_app.table.file_store_table import FileStoreTable

_FILE = "stream_app.json"
_NEW = "give the job a new checkpoint folder (stream.checkpoint)"


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What is remembered.

    Attributes:
        table: the table's folder.
        table_identity: tells a table from one that was made later at the same place.
        topic_ids: Kafka's id of each topic that was ever read.
        tables: for each topic the source tables that its records tell of.
    """

    table: str
    table_identity: str
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)


def open_checkpoint(folder: Folder, table: FileStoreTable) -> CheckpointState:
    """The state of a checkpoint, begun now when the checkpoint is new.

    Raises:
        CheckpointError: it belongs to another table, to an earlier table of this place, or to a
            job that is not ours.
    """
    identity = table.identity()
    state = _read(folder)
    if state is None:
        if folder.files.exists(folder.path("offsets")):
            raise CheckpointError(
                "the checkpoint was made by another application",
                where=str(folder),
                fix=_NEW,
            )
        state = CheckpointState(table.location, identity)
        _write(folder, state)
        return state
    if state.table_identity != identity:
        if state.table == table.location:
            what = "the table was dropped and made anew since this checkpoint was begun"
        else:
            what = f"the checkpoint belongs to the table {state.table}, not {table.location}"
        raise CheckpointError(what, where=str(folder), fix=_NEW)
    return state


def is_begun(folder: Folder) -> bool:
    """Whether a job has begun with this checkpoint."""
    return _read(folder) is not None


def remember_topics(folder: Folder, state: CheckpointState, topic_ids: Mapping[str, str]) -> None:
    """Add topics to the state; the ids of known ones stay what they were."""
    merged = {**topic_ids, **state.topic_ids}
    if merged != dict(state.topic_ids):
        _write(folder, replace(state, topic_ids=merged))


def remembered_tables(folder: Folder) -> Mapping[str, Sequence[str]]:
    """The source tables of each topic, as they were remembered."""
    state = _read(folder)
    return {} if state is None else state.tables


def remember_tables(folder: Folder, tables: Mapping[str, Sequence[str]]) -> None:
    """Put the source tables of each topic into the state; the checkpoint must have been begun."""
    state = _read(folder)
    assert state is not None, "open_checkpoint comes first"
    _write(folder, replace(state, tables=tables))


def query_id(folder: Folder) -> str:
    """The streaming query's id, which Spark keeps in the checkpoint from its first start on."""
    document = json.loads(folder.files.read_bytes(folder.path("metadata")))
    return str(document["id"])


def source_end(folder: Folder, epoch: int) -> str:
    """Where Spark has noted that an epoch ends: a line of JSON for each source."""
    lines = folder.files.read_bytes(folder.path(f"offsets/{epoch}")).decode().splitlines()
    return "\n".join(lines[2:])  # behind the version and Spark's own settings


def source_begin(folder: Folder) -> str:
    """Where the only source began in the first epoch, as JSON."""
    # A zero byte, the version and a line break stand before it.
    return folder.files.read_bytes(folder.path("sources/0/0")).decode().partition("\n")[2]


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
