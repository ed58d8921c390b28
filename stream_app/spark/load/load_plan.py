"""The parts of a first load, as the checkpoint remembers them in ``first_load.json``.

The parts of epoch N are fixed before its rows are read. So a repeated epoch reads the same keys,
and a table that has it already skips it. The next epoch of the job is the load's progress.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from stream_app.errors import CheckpointError
from stream_app.spark.job_folder import Folder

FILE = "first_load.json"
_VERSION = 1
KeyValues = tuple[int | str, ...]
"""A key of the source's table: numbers, and texts as the database writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart:
    """Rows of a source table whose keys lie in a range.

    Attributes:
        table: the path of the table that gets them.
        relation: the source table, for people.
        after: the rows' keys are greater; None: the part begins with the first row.
        until: the greatest key; None: the part ends with the last row.
    """

    table: str
    relation: str
    after: KeyValues | None = None
    until: KeyValues | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """A whole first load.

    Attributes:
        source: the database, for people.
        position: the position of the database's log before the first row is read.
        epochs: the parts of the job's first epochs.
    """

    source: str
    position: str
    epochs: Sequence[Sequence[LoadPart]]

    def parts_of(self, epoch: int) -> Sequence[LoadPart]:
        """The parts of an epoch; none if the epoch is of the topics."""
        return self.epochs[epoch] if 0 <= epoch < len(self.epochs) else ()

    def progress(self, epoch: int) -> str:
        """Describe an epoch of the load for people; all begin with these words."""
        relations = ", ".join(dict.fromkeys(part.relation for part in self.parts_of(epoch)))
        return f"first load: epoch {epoch + 1} of {len(self.epochs)}, of {relations}"


def read_load(folder: Folder) -> LoadPlan | None:
    """The first load in a checkpoint; None: the job has none.

    Raises:
        CheckpointError: the file is damaged, or of a later version.
    """
    try:
        document = json.loads(folder.files.read_bytes(folder.path(FILE)))
        if document["version"] == _VERSION:
            return LoadPlan(
                source=str(document["source"]),
                position=str(document["position"]),
                epochs=[[_part(part) for part in parts] for parts in document["epochs"]],
            )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        what = f"is damaged: {error}"
    else:
        what = f"is of version {document['version']}, and this stream_app knows {_VERSION}"
    raise CheckpointError(
        f"{FILE} of the checkpoint {what}",
        where=str(folder),
        fix="restore it with the checkpoint, or begin anew: another checkpoint, and a new table",
    )


def write_load(folder: Folder, load: LoadPlan) -> None:
    """Remember a first load, before its first row is read."""
    document = {
        "version": _VERSION,
        "source": load.source,
        "position": load.position,
        "epochs": [[asdict(part) for part in parts] for parts in load.epochs],
    }
    folder.files.overwrite(folder.path(FILE), json.dumps(document).encode())
    folder.files.sync(folder.path(FILE))


def _part(document: dict[str, object]) -> LoadPart:
    keys = {name: document[name] for name in ("after", "until")}
    return LoadPart(
        table=str(document["table"]),
        relation=str(document["relation"]),
        **{name: None if key is None else tuple(key) for name, key in keys.items()},  # type: ignore[arg-type]
    )
