"""Writes the log of epochs into a checkpoint, in Spark's own format.

`topic_stream` calls it, and `epoch_log` reads the log. So the job can continue a checkpoint of
Spark's Kafka source, and Spark's source can continue the job's checkpoint. The end of an epoch is
durable before the epoch is read. Its file can be created only once, so two jobs with the same
checkpoint notice each other.

Source: Spark `OffsetSeqLog`, `CommitLog`, `StreamMetadata`, `KafkaSourceInitialOffsetWriter`.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field

from stream_app.checkpoint.job_folder import JobFolder
from stream_app.errors import CheckpointError
from stream_app.kafka.next_offsets import offsets_text
from stream_app.model.job_epoch import Offsets

LOGGED_EPOCHS_MAX = 100
"""Number of epochs that the log keeps, as in Spark."""
_OFFSETS_FOLDER, _COMMITS_FOLDER = "offsets", "commits"
_FIRST_OFFSETS_FILE, _QUERY_FILE = "sources/0/0", "metadata"
_VERSION = "v1\n"
_COMMIT_TEXT = f"{_VERSION}{json.dumps({'nextBatchWatermarkMs': 0}, separators=(',', ':'))}"


@dataclass(slots=True)
class EpochLogWriter:
    """The log of one checkpoint; only one job may write it.

    Attributes:
        epochs_kept: number of epochs whose files stay.
    """

    checkpoint: JobFolder
    epochs_kept: int = LOGGED_EPOCHS_MAX
    _purged_epoch: int = field(init=False, default=-1)

    def begin_query(self) -> None:
        """Give a new checkpoint its id."""
        file_io = self.checkpoint.file_io
        path = self.checkpoint.path(_QUERY_FILE)
        if not file_io.exists(path):
            file_io.create_if_absent(path, json.dumps({"id": str(uuid.uuid4())}).encode())

    def newest_epoch(self) -> int | None:
        """Return the newest epoch that has begun, or None."""
        return max(self._epochs(_OFFSETS_FOLDER), default=None)

    def write_first_offsets(self, offsets: Offsets) -> None:
        """Record where the job's first epoch begins, unless an earlier start recorded it."""
        # The byte before the version stems from an earlier format of Spark.
        data = f"\0{_VERSION}{offsets_text(offsets)}".encode()
        self.checkpoint.file_io.create_if_absent(self.checkpoint.path(_FIRST_OFFSETS_FILE), data)

    def has_first_offsets(self) -> bool:
        """Return whether the log has the offsets at which the first epoch begins."""
        return self.checkpoint.file_io.exists(self.checkpoint.path(_FIRST_OFFSETS_FILE))

    def begin(self, epoch: int, end: Offsets, now_ms: int) -> None:
        """Record the offsets at which an epoch ends, before it is read.

        Raises:
            CheckpointError: another job has recorded it.
        """
        metadata = {"batchWatermarkMs": 0, "batchTimestampMs": now_ms, "conf": {}}
        lines = f"{_VERSION}{json.dumps(metadata, separators=(',', ':'))}\n{offsets_text(end)}"
        path = self.checkpoint.path(f"{_OFFSETS_FOLDER}/{epoch}")
        data = lines.encode()
        file_io = self.checkpoint.file_io
        # A store may repeat a request whose answer was lost, and find the job's own file.
        if not file_io.create_if_absent(path, data) and file_io.read_bytes(path) != data:
            raise CheckpointError(
                f"another job has begun epoch {epoch} with this checkpoint meanwhile",
                where=str(self.checkpoint),
                fix="let only one job use it at a time; end the other one, and start this again",
            )

    def finish(self, epoch: int) -> None:
        """Record that an epoch is done, and delete old epochs."""
        path = self.checkpoint.path(f"{_COMMITS_FOLDER}/{epoch}")
        self.checkpoint.file_io.create_if_absent(path, _COMMIT_TEXT.encode())
        self._purge(epoch - self.epochs_kept)

    def _purge(self, last_epoch: int) -> None:
        """Delete the files of epochs up to this one."""
        if last_epoch < 0:
            return
        file_io = self.checkpoint.file_io
        is_first = self._purged_epoch < 0
        for folder_name in (_OFFSETS_FOLDER, _COMMITS_FOLDER):
            epochs = (
                self._epochs(folder_name)
                if is_first
                else range(self._purged_epoch + 1, last_epoch + 1)
            )
            for epoch in epochs:
                if epoch <= last_epoch:
                    file_io.delete(self.checkpoint.path(f"{folder_name}/{epoch}"))
                    if is_first:  # Hadoop's local file system adds a checksum file
                        file_io.delete(self.checkpoint.path(f"{folder_name}/.{epoch}.crc"))
        self._purged_epoch = last_epoch

    def _epochs(self, folder_name: str) -> list[int]:
        names = self.checkpoint.file_io.list_names(self.checkpoint.path(folder_name))
        return [int(name) for name in names if name.isdecimal()]
