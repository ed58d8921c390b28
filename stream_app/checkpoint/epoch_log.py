"""Reads a checkpoint's log of epochs: their numbers, and the offsets at which they begin and end.

The job writes that log in Spark's format (`epoch_log_writer`), or Spark's streaming query does.

Source: Spark `OffsetSeqLog`, `CommitLog`, `StreamMetadata`, `KafkaSourceInitialOffsetWriter`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from stream_app.checkpoint.job_folder import JobFolder
from stream_app.errors import CheckpointError
from stream_app.format.snapshot_properties.source_end_json import offsets_of_topics
from stream_app.model.job_epoch import Offsets

LOST_FIX = (
    "restore the checkpoint from a backup, or give the job a new one, with "
    "source.starting-offsets where its tables end (stream-app inspect TABLE snapshots): the job "
    "does not begin if it would count records of a table twice"
)


@dataclass(frozen=True, slots=True)
class EpochLog:
    """The epochs of a checkpoint; old ones have been deleted.

    Attributes:
        checkpoint: the folder of the log.
        can_reread: whether the source has offsets, so that an epoch can be read again.
    """

    checkpoint: JobFolder
    can_reread: bool

    def is_begun(self) -> bool:
        """Return whether the job has ever begun, in this run or an earlier one."""
        return self.checkpoint.file_io.exists(self.checkpoint.path("metadata"))

    def query_id(self) -> str:
        """Return the checkpoint's id, which never changes after the job's first start."""
        return str(json.loads(self._text("metadata"))["id"])

    def source_end(self, epoch: int) -> str:
        """Return the text of an epoch's end: a line of JSON for each source."""
        lines = self._text(f"offsets/{epoch}").splitlines()
        return "\n".join(lines[2:])  # the lines before are the version and Spark's settings

    def sync(self, epoch: int) -> None:
        """Sync an epoch's offsets to disk, which Spark does not do.

        The offsets of an epoch that a table has must survive a power cut.
        """
        self.checkpoint.file_io.sync(self.checkpoint.path(f"offsets/{epoch}"))

    def start_offsets(self, epoch: int) -> Offsets:
        """Return the offsets at which an epoch begins, without its new partitions.

        Raises:
            CheckpointError: the file of the offsets is damaged.
        """
        if epoch:
            return self.end_offsets(epoch - 1)
        _, _, text = self._text("sources/0/0").partition("\n")  # the line before is the version
        return self._parse("sources/0/0", text)

    def end_offsets(self, epoch: int) -> Offsets:
        """Return the offsets at which an epoch of topics ends.

        Raises:
            CheckpointError: the file of the offsets is damaged.
        """
        return self._parse(f"offsets/{epoch}", self.source_end(epoch))

    def is_done(self, epoch: int) -> bool:
        """Return whether the log records the epoch as done; then the stream continues after it."""
        return self.checkpoint.file_io.exists(self.checkpoint.path(f"commits/{epoch}"))

    def _parse(self, name: str, source_end: str) -> Offsets:
        """Return the offsets in the text of a file of the log."""
        try:
            return offsets_of_topics(source_end)
        except ValueError as error:
            raise CheckpointError(
                f"{name} of the checkpoint has no offsets: {error}",
                where=str(self.checkpoint),
                fix=LOST_FIX,
            ) from None

    def _text(self, name: str) -> str:
        """Return a file of the log.

        Raises:
            CheckpointError: the file is empty, as after a power cut.
        """
        data = self.checkpoint.file_io.read_bytes(self.checkpoint.path(name))
        if not data.strip(b"\0"):
            raise CheckpointError(
                f"{name} of the checkpoint is empty, as after a power cut",
                where=str(self.checkpoint),
                fix=LOST_FIX,
            )
        return data.decode()
