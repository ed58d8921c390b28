"""What a job remembers in its checkpoint, besides Spark's own files: ``job_state.json``.

One versioned document, which only the job writes. `status`, `check`, `doctor`, replays and the page
read it by this module. A request to resume a table comes from another process, so it is a file of
its own (`resume_requests`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stream_app.errors import CheckpointError
from stream_app.model.schema.origin import Origin
from stream_app.spark.ingest import earlier_state
from stream_app.spark.ingest.held_tables import HeldTable
from stream_app.spark.ingest.truncation import SourcesMet
from stream_app.spark.job_folder import Folder

ONLY_TABLE = ""
"""The name of its table in the state of a job of one table."""
FILE = "job_state.json"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """All that a job remembers.

    Attributes:
        table: the table's folder, or that of a database's tables; empty: no job has begun.
        table_identity: distinguishes a table from a later one at the same place.
        topic_ids: Kafka's id of each topic that was ever read.
        epoch: the newest that all tables have, but those that are held; -1 before the first. A job
            of one table has every epoch as a snapshot, and does not note it here.
        newest: table → the newest epoch that brought it changes.
        held: the tables that wait.
        source_tables: table → the source tables of which it has rows.
        origins: source table → the name of its table.
        refused: source table of which nothing is stored → why.
    """

    table: str = ""
    table_identity: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    epoch: int = -1
    newest: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, HeldTable] = field(default_factory=dict)
    source_tables: Mapping[str, SourcesMet] = field(default_factory=dict)
    origins: Mapping[Origin, str] = field(default_factory=dict)
    refused: Mapping[Origin, str] = field(default_factory=dict)

    @property
    def own_source_tables(self) -> SourcesMet:
        """The source tables of a job of one table, by topic."""
        return self.source_tables.get(ONLY_TABLE, {})


def read_state(folder: Folder) -> JobState | None:
    """The state in a checkpoint; None: no job has begun with it.

    Raises:
        CheckpointError: the file is damaged, or of a later version.
    """
    document = _read(folder)
    if document is None:
        earlier = earlier_state.read(folder)
        # The job may have replaced the earlier files while they were read, or before.
        document = _read(folder) or earlier
    return None if document is None else _parsed(folder, document)


def state_of(folder: Folder) -> JobState:
    """As `read_state`; an empty one when no job has begun."""
    return read_state(folder) or JobState()


class JobStateFile:
    """The state of a running job, its only writer. Not thread safe."""

    def __init__(self, folder: Folder) -> None:
        """Read the state.

        Raises:
            CheckpointError: as `read_state`.
        """
        self.folder = folder
        self.state = state_of(folder)
        self._replaces_earlier = True

    def note(self, **changes: Any) -> None:
        """Change fields; the next `save` persists them."""
        self.state = replace(self.state, **changes)

    def update(self, **changes: Any) -> None:
        """Change fields, and persist them if that is new."""
        before = self.state
        self.note(**changes)
        if self.state != before:
            self.save()

    def save(self) -> None:
        """Persist the state, atomically; then delete the files of earlier versions.

        A crash between both leaves them behind. Readers prefer the new file, and the next start
        deletes the old ones.
        """
        data = json.dumps(_document(self.state)).encode()
        self.folder.files.overwrite(self.folder.path(FILE), data)
        if self._replaces_earlier:
            earlier_state.delete(self.folder)
            self._replaces_earlier = False


def _read(folder: Folder) -> Any:
    try:
        return json.loads(folder.files.read_bytes(folder.path(FILE)))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _damaged(folder, error) from None


def _document(state: JobState) -> dict[str, Any]:
    return {
        "version": _VERSION,
        **{name: getattr(state, name) for name in ("table", "table_identity", "topic_ids")},
        "epoch": state.epoch,
        "newest": state.newest,
        "held": {name: asdict(waiting) for name, waiting in state.held.items()},
        "source_tables": state.source_tables,
        "origins": [{**asdict(at), "name": name} for at, name in sorted(state.origins.items())],
        "refused": [{**asdict(at), "reason": why} for at, why in sorted(state.refused.items())],
    }


def _parsed(folder: Folder, document: Any) -> JobState:
    try:
        version = document["version"]
        if version == _VERSION:
            return JobState(
                table=str(document["table"]),
                table_identity=str(document["table_identity"]),
                topic_ids=dict(document["topic_ids"]),
                epoch=int(document["epoch"]),
                newest=dict(document["newest"]),
                held={name: HeldTable(**one) for name, one in document["held"].items()},
                source_tables={
                    name: {topic: list(names) for topic, names in topics.items()}
                    for name, topics in document["source_tables"].items()
                },
                origins={_origin(one): str(one["name"]) for one in document["origins"]},
                refused={_origin(one): str(one["reason"]) for one in document["refused"]},
            )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(folder, error) from None
    raise CheckpointError(
        f"{FILE} of the checkpoint is of version {version}, and this stream_app knows {_VERSION}",
        where=str(folder),
        fix="go on with the version of stream_app that wrote it, or a later one",
    )


def _origin(one: Mapping[str, Any]) -> Origin:
    return Origin(one["database"], one["schema"], one["table"])


def _damaged(folder: Folder, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{FILE} of the checkpoint is damaged: {error}",
        where=str(folder),
        fix="restore it with the checkpoint, or give the job a new checkpoint folder "
        "(stream.checkpoint): it says where tables that were held back go on, and which rows a "
        "TRUNCATE deletes",
    )
