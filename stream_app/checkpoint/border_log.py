"""Records in the job's checkpoint at which transactions of the source each epoch ends.

`whole_borders` writes a border before the epoch begins, so a repeated epoch has the same border.
`app.job.database_record` reads it once the tables have the epoch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stream_app.cdc.transactions import POSITION_LENGTH
from stream_app.checkpoint.epoch_log_writer import LOGGED_EPOCHS_MAX
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.errors import CheckpointError
from stream_app.kafka.transactions.border import (
    Border,
    Doubt,
    LogPosition,
    LogProgress,
    NewestTransaction,
    PartitionProgress,
    PartitionState,
)
from stream_app.model.database_snapshot import SourcePosition

FOLDER = "borders"


@dataclass(frozen=True, slots=True)
class BorderLog:
    """The borders of a checkpoint's newest epochs."""

    checkpoint: JobFolder

    def write(self, epoch: int, border: Border) -> None:
        """Write the border of an epoch that is about to begin; delete an old epoch's border."""
        file_io = self.checkpoint.file_io
        data = json.dumps(_encode(border)).encode()
        file_io.overwrite(self._path(epoch), data)
        if epoch >= LOGGED_EPOCHS_MAX:
            file_io.delete(self._path(epoch - LOGGED_EPOCHS_MAX))

    def border(self, epoch: int) -> Border | None:
        """Return the border of an epoch; None if it is old or was planned without one.

        Raises:
            CheckpointError: the file is damaged.
        """
        try:
            return _decode(json.loads(self.checkpoint.file_io.read_bytes(self._path(epoch))))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{FOLDER}/{epoch} of the checkpoint is damaged: {error}",
                where=str(self.checkpoint),
                fix="delete the file: then this epoch has no database snapshot",
            ) from None

    def _path(self, epoch: int) -> str:
        return self.checkpoint.path(f"{FOLDER}/{epoch}")


def _encode(border: Border) -> dict[str, Any]:
    topics: dict[str, dict[str, Any]] = {}
    for (topic, partition_number), progress in border.progress.partitions.items():
        topics.setdefault(topic, {})[str(partition_number)] = [
            progress.state,
            *progress.highest_position,
        ]
    doubt = border.doubt
    return {
        "newest": {
            source: {"position": asdict(end.position), "at": end.log_position, "log": end.log}
            for source, end in border.progress.newest_transactions.items()
        },
        "topics": topics,
        "advances": border.advances,
        "doubt": None if doubt is None else {"what": doubt.reason, "fix": doubt.fix},
    }


def _decode(document: Any) -> Border:
    """Return the border in a document; a damaged document raises the error of its access."""
    newest_transactions = {
        str(source): NewestTransaction(
            SourcePosition(str(end["position"]["transaction"]), int(end["position"]["time_ms"])),
            _log_position(end["at"], POSITION_LENGTH),
            str(end["log"]),
        )
        for source, end in document["newest"].items()
    }
    partitions = {
        (str(topic), int(partition_number)): PartitionProgress(
            _log_position(values[1:], POSITION_LENGTH + 1), PartitionState(values[0])
        )
        for topic, states in document["topics"].items()
        for partition_number, values in states.items()
    }
    doubt = document["doubt"]
    return Border(
        progress=LogProgress(newest_transactions, partitions),
        advances=bool(document["advances"]),
        doubt=None if doubt is None else Doubt(str(doubt["what"]), str(doubt["fix"])),
    )


def _log_position(values: Sequence[int], count: int) -> LogPosition:
    position = tuple(int(value) for value in values)
    if len(position) != count:
        raise ValueError(f"a position has {count} numbers, not {len(position)}")
    return position
