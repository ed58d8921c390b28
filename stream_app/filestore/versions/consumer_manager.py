"""Manages consumer files: ``consumer/consumer-<id>``, JSON such as ``{"nextSnapshot": 7}``.

A file records a consumer's progress, and protects the snapshots that it has not read yet from
expiry. The file's modification time is the time of the last progress.

Source: Paimon `consumer/ConsumerManager.java`, `consumer/Consumer.java`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stream_app.errors import CorruptFileError, UsageError
from stream_app.fileio.file_io import FileIO
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.consumer import Consumer

_PREFIX = "consumer-"
_NEXT_SNAPSHOT = "nextSnapshot"


@dataclass(frozen=True, slots=True)
class ConsumerManager:
    """The consumers of the table at `root`."""

    file_io: FileIO
    root: str

    def next_snapshot_id(self, consumer_id: str) -> int | None:
        """Return the first snapshot that a consumer has yet to read; None without such a consumer.

        Raises:
            UsageError: no file can have the name.
            CorruptFileError: the file names no snapshot.
        """
        path = self._path(consumer_id)
        try:
            data = self.file_io.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return JsonObject.decode(data, file_kind="consumer").integer(_NEXT_SNAPSHOT)
        except CorruptFileError as error:
            raise CorruptFileError(
                error.problem,
                where=path,
                fix="delete the file, and start the consumer again from the beginning",
            ) from error

    def consumers(self) -> list[Consumer]:
        """Return all consumers, in the order of their names.

        Raises:
            CorruptFileError: a file names no snapshot.
        """
        consumers = []
        for status in self.file_io.list_status(f"{self.root}/consumer"):
            if status.is_folder or not status.name.startswith(_PREFIX):
                continue
            consumer_id = status.name.removeprefix(_PREFIX)
            next_snapshot_id = self.next_snapshot_id(consumer_id)
            if next_snapshot_id is not None:  # otherwise it was deleted meanwhile
                consumers.append(
                    Consumer(
                        consumer_id=consumer_id,
                        next_snapshot_id=next_snapshot_id,
                        modification_time_ms=status.modification_time_ms,
                    )
                )
        return sorted(consumers, key=lambda consumer: consumer.consumer_id)

    def min_next_snapshot_id(self, now_ms: int, expiration_ms: int | None) -> int | None:
        """Return the first snapshot that a consumer has yet to read; None without consumers.

        Args:
            expiration_ms: consumers without progress for longer do not count
                (``consumer.expiration-time``); None: all count.

        Raises:
            CorruptFileError: a file names no snapshot, so the protected versions are unknown.
        """
        next_snapshots = (
            consumer.next_snapshot_id
            for consumer in self.consumers()
            if not consumer.has_expired(now_ms, expiration_ms)
        )
        return min(next_snapshots, default=None)

    def reset(self, consumer_id: str, next_snapshot_id: int) -> None:
        """Set a consumer's next snapshot atomically; a missing consumer is created.

        Raises:
            UsageError: the name cannot be that of a file.
        """
        data = encode_object({_NEXT_SNAPSHOT: next_snapshot_id})
        self.file_io.overwrite(self._path(consumer_id), data)

    def delete(self, consumer_id: str) -> None:
        """Delete a consumer durably, if it exists.

        Raises:
            UsageError: the name cannot be that of a file.
        """
        self._delete([consumer_id])

    def expire(self, now_ms: int, expiration_ms: int) -> list[Consumer]:
        """Delete consumers without progress for longer than `expiration_ms`."""
        expired_consumers = [
            consumer for consumer in self.consumers() if consumer.has_expired(now_ms, expiration_ms)
        ]
        if expired_consumers:
            self._delete([consumer.consumer_id for consumer in expired_consumers])
        return expired_consumers

    def _delete(self, consumer_ids: list[str]) -> None:
        for consumer_id in consumer_ids:
            self.file_io.delete(self._path(consumer_id))
        # A file that reappears would protect expired snapshots, and all later ones.
        self.file_io.sync_deletions(f"{self.root}/consumer")

    def _path(self, consumer_id: str) -> str:
        if not consumer_id or re.search(r"[/\\\x00-\x1f]", consumer_id):
            raise UsageError(
                f"a consumer cannot be named {consumer_id!r}",
                where=self.root,
                fix="give a name that a file can have, such as orders-to-search",
            )
        return f"{self.root}/consumer/{_PREFIX}{consumer_id}"
