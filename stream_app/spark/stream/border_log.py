"""Keeps which transactions of the source an epoch ends with, in the job's checkpoint.

`whole_borders` writes a border before the epoch begins, so an epoch that is repeated after a crash
has the same one. `app.job.database_record` reads it when the tables have the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from stream_app.errors import CheckpointError
from stream_app.kafka.window_cut import Doubt
from stream_app.model.database.database_snapshot import SourcePosition
from stream_app.spark.job_folder import Folder
from stream_app.spark.stream.epoch_log_writer import EPOCHS_KEPT

FOLDER = "borders"


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """The end of an epoch, in transactions of the source.

    Attributes:
        newest: connector → its newest transaction in this epoch or an earlier one.
        advances: whether a transaction of this epoch is among them.
        is_settled: whether no transaction crosses the end.
        doubt: why the tables are not the database there; None: they are.
    """

    newest: Mapping[str, SourcePosition] = field(default_factory=dict)
    advances: bool = False
    is_settled: bool = False
    doubt: Doubt | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the tables, with this epoch, are the database at a further transaction."""
        return self.advances and self.doubt is None


@dataclass(frozen=True, slots=True)
class BorderLog:
    """The borders of a checkpoint's newest epochs."""

    folder: Folder

    def note(self, epoch: int, border: Border) -> None:
        """Keep the border of an epoch that is about to begin; forget that of an old one."""
        files, data = self.folder.files, json.dumps(asdict(border)).encode()
        files.overwrite(self._path(epoch), data)
        if epoch >= EPOCHS_KEPT:
            files.delete(self._path(epoch - EPOCHS_KEPT))

    def border(self, epoch: int) -> Border | None:
        """The border of an epoch; None: it is an old one, or was planned without borders.

        Raises:
            CheckpointError: the file is damaged.
        """
        try:
            document = json.loads(self.folder.files.read_bytes(self._path(epoch)))
            return Border(
                newest={
                    str(source): SourcePosition(str(at["transaction"]), int(at["time_ms"]))
                    for source, at in document["newest"].items()
                },
                advances=bool(document["advances"]),
                is_settled=bool(document["is_settled"]),
                doubt=None if document["doubt"] is None else Doubt(**document["doubt"]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{FOLDER}/{epoch} of the checkpoint is damaged: {error}",
                where=str(self.folder),
                fix="delete the file: then this epoch has no database snapshot",
            ) from None

    def _path(self, epoch: int) -> str:
        return self.folder.path(f"{FOLDER}/{epoch}")
