"""The parts of a first load, which the checkpoint records in ``first_load.json``.

The parts of epoch N are fixed before its rows are read. So a repeated epoch reads the same keys,
and a table that has it already skips it. The next epoch of the job is the load's progress.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_app.checkpoint.job_folder import JobFolder
from stream_app.errors import CheckpointError
from stream_app.model.job_epoch import Offsets

LOAD_PLAN_FILE = "first_load.json"
_VERSION = 1
KeyValues = tuple[int | str, ...]
"""A key of the source's table: numbers, and texts as the database writes them."""
_TABLES_A_TASK = 8
"""Tables of a single part that a task gets in an epoch: most such tables are small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart:
    """The rows of a source table whose keys are in a range.

    Attributes:
        name: the job's name of the table that gets the rows.
        table: the path of that table.
        relation: the name of the source table, by which it has a query.
        key_before: the greatest key before the part, or None if it begins with the first row.
        last_key: the greatest key of the part, or None if it ends with the last row.
    """

    name: str
    table: str
    relation: str
    key_before: KeyValues | None = None
    last_key: KeyValues | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A whole first load.

    Attributes:
        source: the database, for people.
        log_position: the position of the database's log before the first row is read.
        begun_time_ms: the time of that position, since 1970 in UTC.
        offsets: the ends of the topics at that time, where the job begins to read them.
        epochs: the parts of the job's first epochs.
    """

    source: str
    log_position: str
    begun_time_ms: int
    offsets: Offsets
    epochs: Sequence[Sequence[LoadPart]]

    def parts_of(self, epoch: int) -> Sequence[LoadPart]:
        """Return the parts of an epoch, empty if the epoch reads the topics."""
        return self.epochs[epoch] if 0 <= epoch < len(self.epochs) else ()

    def parts_from(self, epoch: int) -> Sequence[LoadPart]:
        """Return the parts of an epoch and of all later ones."""
        return [part for parts in self.epochs[max(0, epoch) :] for part in parts]

    def progress(self, epoch: int) -> str:
        """Describe an epoch of the load for people."""
        relations_text = ", ".join(dict.fromkeys(part.relation for part in self.parts_of(epoch)))
        return f"first load: epoch {epoch + 1} of {len(self.epochs)}, of {relations_text}"


def split_into_epochs(
    tables: Iterable[Sequence[LoadPart]], task_count: int
) -> list[list[LoadPart]]:
    """Distribute parts over epochs, in their order.

    Args:
        tables: the parts of each table.
        task_count: number of concurrent tasks; each gets a part of a large table, or several small
            tables.
    """
    epochs: list[list[LoadPart]] = []
    free_slot_count = 0
    for parts in tables:
        slot_count = _TABLES_A_TASK if len(parts) > 1 else 1
        for part in parts:
            if free_slot_count < slot_count:
                epochs.append([])
                free_slot_count = _TABLES_A_TASK * task_count
            epochs[-1].append(part)
            free_slot_count -= slot_count
    return epochs


def read_load_plan(checkpoint: JobFolder) -> LoadPlan | None:
    """Return the first load in a checkpoint, or None.

    Raises:
        CheckpointError: the file is damaged, or of a later version.
    """
    try:
        document = json.loads(checkpoint.file_io.read_bytes(checkpoint.path(LOAD_PLAN_FILE)))
        if document["version"] == _VERSION:
            return LoadPlan(
                source=str(document["source"]),
                log_position=str(document["position"]),
                begun_time_ms=int(document["begun_ms"]),
                offsets=dict(document["offsets"]),
                epochs=[[_part(part) for part in parts] for parts in document["epochs"]],
            )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        problem = f"is damaged: {error}"
    else:
        problem = f"is of version {document['version']}, and stream_app reads version {_VERSION}"
    raise CheckpointError(
        f"{LOAD_PLAN_FILE} of the checkpoint {problem}",
        where=str(checkpoint),
        fix="restore it with the checkpoint, or begin again: another checkpoint, and a new table",
    )


def write_load_plan(checkpoint: JobFolder, load_plan: LoadPlan) -> None:
    """Record a first load before its first row is read."""
    document = {
        "version": _VERSION,
        "source": load_plan.source,
        "position": load_plan.log_position,
        "begun_ms": load_plan.begun_time_ms,
        "offsets": load_plan.offsets,
        "epochs": [[_part_document(part) for part in parts] for parts in load_plan.epochs],
    }
    checkpoint.file_io.overwrite(checkpoint.path(LOAD_PLAN_FILE), json.dumps(document).encode())
    checkpoint.file_io.sync(checkpoint.path(LOAD_PLAN_FILE))


def _part_document(part: LoadPart) -> dict[str, object]:
    return {
        "name": part.name,
        "table": part.table,
        "relation": part.relation,
        "after": part.key_before,
        "until": part.last_key,
    }


def _part(document: Mapping[str, Any]) -> LoadPart:
    key_before, last_key = (
        None if document[name] is None else tuple(document[name]) for name in ("after", "until")
    )
    return LoadPart(
        name=str(document["name"]),
        table=str(document["table"]),
        relation=str(document["relation"]),
        key_before=key_before,
        last_key=last_key,
    )
