"""Reads and writes the job's state, ``job_state.json`` in its checkpoint, beside Spark's files.

It is one versioned document, which only the job writes. `status`, `check`, `doctor`, replays and
the page read it with this module. A request to resume a table comes from another process, so it is
a file of its own (`held_tables`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.errors import CheckpointError
from stream_app.model.source.origin import Origin, origin_of
from stream_app.model.source.source_renames import NO_RENAMES, SourceRenames, source_renames

_LOG = logging.getLogger(__name__)
ONLY_TABLE = ""
"""The name of its table in the state of a job of one table."""
JOB_STATE_FILE = "job_state.json"
EARLIER_FILE = "stream_app.json"
"""File name of 0.1.0, whose jobs have one table."""
_VERSION = 1
_WARNINGS_MAX = 1000
SourceTableNames = Mapping[str, Collection[str]]
"""Topic → names of the source tables whose rows it has brought."""
_FIELDS_STORED_AS_THEY_ARE = ("table_identity", "share", "decoder", "topic_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobWarning:
    """A warning that the job deviates from a user's expectation, with the remedy.

    Attributes:
        table: ``DATABASE.TABLE``; empty if the warning concerns the whole job.
        problem: describes the deviation, with the columns.
        is_lasting: whether it survives a restart; otherwise each start finds it again.
    """

    table: str = ""
    problem: str
    fix: str
    is_lasting: bool = False

    def __str__(self) -> str:
        table_prefix = f"the table {self.table}: " if self.table else ""
        return f"{table_prefix}{self.problem}\n  to fix: {self.fix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The state of a job in its checkpoint, without log, borders and load plan.

    Attributes:
        location: the folder of the table, or of a database's tables; empty before a job has begun.
        table_identity: distinguishes a table from a later one at the same location.
        share: the job's share of a database's tables, such as ``3/8``; empty if it has all tables.
        decoder: the decoder of messages since the newest start; empty if the format has only one.
        topic_ids: Kafka's id of each topic that was ever read.
        epoch: the newest epoch that all tables except held ones have; -1 before the first. In a job
            of one table every epoch is a snapshot, so the job does not record it here.
        newest_epochs: table → the newest epoch that brought it changes.
        held_tables: the held tables.
        source_tables: table → the source tables whose rows it has.
        targets: source table → the name of its table.
        refused_tables: source table that the job does not store → the reason.
        renames: the renames by statements of the source.
        warnings: warnings of the newest start, and the lasting ones.
    """

    location: str = ""
    table_identity: str = ""
    share: str = ""
    decoder: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    epoch: int = -1
    newest_epochs: Mapping[str, int] = field(default_factory=dict)
    held_tables: Mapping[str, HeldTable] = field(default_factory=dict)
    source_tables: Mapping[str, SourceTableNames] = field(default_factory=dict)
    targets: Mapping[Origin, str] = field(default_factory=dict)
    refused_tables: Mapping[Origin, str] = field(default_factory=dict)
    renames: SourceRenames = NO_RENAMES
    warnings: tuple[JobWarning, ...] = ()

    def source_tables_of(self, name: str = ONLY_TABLE) -> SourceTableNames:
        """Return all source tables whose rows a table may have."""
        return self.source_tables.get(name, {})


def read_state(checkpoint: JobFolder) -> JobState | None:
    """Return the state in a checkpoint, or None if no job has used the checkpoint.

    Raises:
        CheckpointError: the file is damaged, or of a later version.
    """
    document = _read_document(checkpoint)
    earlier_state = _earlier_state(checkpoint) if document is None else None
    if document is None:
        # The job may have replaced the earlier file before or during this read.
        document = _read_document(checkpoint)
    return earlier_state if document is None else _decode(checkpoint, document)


def state_or_empty(checkpoint: JobFolder) -> JobState:
    """Return the state of a checkpoint, which is empty if no job has used it; see `read_state`."""
    return read_state(checkpoint) or JobState()


class JobStateFile:
    """The state of a running job, its only writer. Not thread safe."""

    def __init__(self, checkpoint: JobFolder) -> None:
        """Read the state.

        Raises:
            CheckpointError: see `read_state`.
        """
        self.checkpoint = checkpoint
        self.state = self._written_state = state_or_empty(checkpoint)
        self._replaces_earlier = True
        self._transient_warnings: dict[str, tuple[JobWarning, ...]] = {}

    def note(self, state: JobState) -> None:
        """Replace the state in memory; the next `write` persists it."""
        self.state = state

    def update(self, state: JobState) -> None:
        """Replace the state, and persist it if it differs."""
        self.note(state)
        self.write()

    def add_source_tables(self, sent_tables: Mapping[str, Iterable[tuple[str, str]]]) -> None:
        """Persist the source tables from which each table, by its name, is about to get rows."""
        merged_tables = {
            name: with_source_tables(self.state.source_tables_of(name), tables)
            for name, tables in sent_tables.items()
            if tables
        }
        source_tables = {**self.state.source_tables, **merged_tables}
        self.update(replace(self.state, source_tables=source_tables))

    def begin(self, decoder: str = "") -> None:
        """Begin a job: record its decoder, and drop the warnings that each start issues again."""
        lasting_warnings = tuple(warning for warning in self.state.warnings if warning.is_lasting)
        self.update(replace(self.state, warnings=lasting_warnings, decoder=decoder))

    def write_warnings(self, warnings: Iterable[JobWarning]) -> None:
        """Log warnings, and store them for `status`, `check` and the page."""
        for warning in warnings:
            _LOG.warning("%s", warning)
            stored_warnings = self.state.warnings
            if warning not in stored_warnings and len(stored_warnings) < _WARNINGS_MAX:
                self.update(replace(self.state, warnings=(*stored_warnings, warning)))

    def write_transient_warnings(self, reporter: str, warnings: Sequence[JobWarning]) -> None:
        """Replace the stored warnings of a reporter's previous call, which end with their cause."""
        previous_warnings = self._transient_warnings.get(reporter, ())
        ended_warnings = [warning for warning in previous_warnings if warning not in warnings]
        remaining_warnings = tuple(
            warning for warning in self.state.warnings if warning not in ended_warnings
        )
        self.update(replace(self.state, warnings=remaining_warnings))
        self.write_warnings(warning for warning in warnings if warning not in previous_warnings)
        self._transient_warnings[reporter] = tuple(warnings)

    def write(self) -> None:
        """Persist the state atomically if it changed; then delete the file of 0.1.0.

        A crash in between leaves the old file behind. Readers prefer the new one, and the next
        start deletes the old one.
        """
        if self.state == self._written_state:
            return
        data = json.dumps(_encode(self.state)).encode()
        self.checkpoint.file_io.overwrite(self.checkpoint.path(JOB_STATE_FILE), data)
        self._written_state = self.state
        if self._replaces_earlier:
            self.checkpoint.file_io.delete(self.checkpoint.path(EARLIER_FILE))
            self._replaces_earlier = False


def _read_document(checkpoint: JobFolder, name: str = JOB_STATE_FILE) -> Any:
    try:
        return json.loads(checkpoint.file_io.read_bytes(checkpoint.path(name)))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _damaged_error(checkpoint, error, name) from None


def _earlier_state(checkpoint: JobFolder) -> JobState | None:
    """Return the state that a job of version 0.1.0 left; None if there is no such file."""
    document = _read_document(checkpoint, EARLIER_FILE)
    if document is None:
        return None
    try:
        tables = document.get("tables")
        return JobState(
            location=str(document.get("table", "")),
            table_identity=str(document.get("table_identity", "")),
            topic_ids=dict(document.get("topic_ids", {})),
            source_tables={ONLY_TABLE: tables} if tables else {},
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise _damaged_error(checkpoint, error, EARLIER_FILE) from None


def _encode(state: JobState) -> dict[str, Any]:
    """Return the document of a state; the inverse of `_decode`."""
    return {
        "version": _VERSION,
        "table": state.location,
        **{name: getattr(state, name) for name in _FIELDS_STORED_AS_THEY_ARE},
        "epoch": state.epoch,
        "newest": state.newest_epochs,
        "held": {name: _held_document(table) for name, table in state.held_tables.items()},
        "source_tables": state.source_tables,
        "origins": _origin_documents(state.targets, "name"),
        "refused": _origin_documents(state.refused_tables, "reason"),
        "renames": state.renames.document(),
        "warnings": [
            {
                "table": warning.table,
                "what": warning.problem,
                "fix": warning.fix,
                "is_lasting": warning.is_lasting,
            }
            for warning in state.warnings
        ],
    }


def _origin_documents(texts: Mapping[Origin, str], name: str) -> list[dict[str, str]]:
    """Return a document for each source table, in order."""
    return [{**origin.document(), name: text} for origin, text in sorted(texts.items())]


def _decode(checkpoint: JobFolder, document: Any) -> JobState:
    """Return the state in a document.

    Raises:
        CheckpointError: the document is damaged, or of another version.
    """
    try:
        version = document["version"]
        if version == _VERSION:
            return JobState(
                location=str(document["table"]),
                table_identity=str(document["table_identity"]),
                share=str(document.get("share", "")),
                decoder=str(document.get("decoder", "")),
                topic_ids=dict(document["topic_ids"]),
                epoch=int(document["epoch"]),
                newest_epochs=dict(document["newest"]),
                held_tables={
                    name: _held_table(held_document)
                    for name, held_document in document["held"].items()
                },
                source_tables={
                    name: {topic: list(names) for topic, names in topics.items()}
                    for name, topics in document["source_tables"].items()
                },
                targets={origin_of(origin): str(origin["name"]) for origin in document["origins"]},
                refused_tables={
                    origin_of(origin): str(origin["reason"]) for origin in document["refused"]
                },
                renames=source_renames(document["renames"])
                if "renames" in document
                else NO_RENAMES,
                warnings=tuple(_warning(warning) for warning in document.get("warnings", ())),
            )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged_error(checkpoint, error) from None
    raise CheckpointError(
        f"{JOB_STATE_FILE} is of version {version}, and stream_app reads version {_VERSION}",
        where=str(checkpoint),
        fix="continue with the version of stream_app that wrote it, or a later one",
    )


def _held_document(held_table: HeldTable) -> dict[str, Any]:
    other_values = {name: value for name, value in asdict(held_table).items() if name != "start"}
    return {**other_values, "begin": held_table.start}


def _held_table(document: Mapping[str, Any]) -> HeldTable:
    other_values = {name: value for name, value in document.items() if name != "begin"}
    return HeldTable(start=document["begin"], **other_values)


def _warning(document: Mapping[str, Any]) -> JobWarning:
    other_values = {name: value for name, value in document.items() if name != "what"}
    return JobWarning(problem=document["what"], **other_values)


def _damaged_error(
    checkpoint: JobFolder, error: Exception, name: str = JOB_STATE_FILE
) -> CheckpointError:
    cause = f"it has no {error}" if isinstance(error, KeyError) else error
    return CheckpointError(
        f"{name} of the checkpoint is damaged: {cause}",
        where=str(checkpoint),
        fix="restore the file with the checkpoint, or give the job a new checkpoint folder "
        "(stream.checkpoint); the file records where held tables resume, and which rows a "
        "TRUNCATE deletes",
    )


def with_source_tables(
    source_tables: Mapping[str, Iterable[str]], sent_tables: Iterable[tuple[str, str]]
) -> Mapping[str, list[str]]:
    """Return the known source tables of a table, extended by those of another epoch."""
    topics = {topic: set(names) for topic, names in source_tables.items()}
    for topic, name in sent_tables:
        topics.setdefault(topic, set()).add(name)
    return {topic: sorted(names) for topic, names in topics.items()}
