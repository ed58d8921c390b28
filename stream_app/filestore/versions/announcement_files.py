"""Announces expiries and rollbacks: ``tag/expiring-<uuid>`` and ``tag/rolling-back-<uuid>``.

Each announcement is a separate JSON file, so no process withdraws another's. The files are beside
the tags, because all engines ignore names there without the prefix ``tag-``. In the folders of
snapshots and changelogs, Paimon's orphan removal would delete them.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, Self, TypeVar

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.format.json_object import JsonObject, encode_object


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryAnnouncement:
    """An announcement that an expiry deletes snapshots, which may be half deleted.

    Attributes:
        start, end: the numbers from `start` to before `end`.
        end_list: the delta manifest list of the snapshot `end`, which stays. It identifies the
            snapshot, even if a rollback lets its number be reused.
        tagged_ids: the numbers whose files stay, because they have tags.
    """

    ACTOR: ClassVar = "expiry"
    PREFIX: ClassVar = "expiring-"

    start: int
    end: int
    end_list: str
    tagged_ids: frozenset[int] = frozenset()

    def encode(self) -> bytes:
        """Encode the announcement as the bytes of its file."""
        return encode_object(
            {
                "begin": self.start,
                "end": self.end,
                "endDeltaManifestList": self.end_list,
                "tagged": sorted(self.tagged_ids),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the announcement in a file.

        Raises:
            CorruptFileError: the bytes are not an announcement.
        """
        json = JsonObject.decode(data, file_kind="tag/expiring")
        return cls(
            start=json.integer("begin"),
            end=json.integer("end"),
            end_list=json.text("endDeltaManifestList"),
            tagged_ids=frozenset(json.items("tagged")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackAnnouncement:
    """An announcement that a rollback deletes everything newer than one version.

    Attributes:
        target_id: the number of that version.
        delta_lists: number of a snapshot to delete → its delta manifest list; "" if the snapshot is
            unreadable.
    """

    ACTOR: ClassVar = "rollback"
    PREFIX: ClassVar = "rolling-back-"

    target_id: int
    delta_lists: Mapping[int, str]

    def encode(self) -> bytes:
        """Encode the announcement as the bytes of its file."""
        lists = {str(snapshot_id): delta for snapshot_id, delta in sorted(self.delta_lists.items())}
        return encode_object({"target": self.target_id, "deltaManifestLists": lists})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decode the announcement in a file.

        Raises:
            CorruptFileError: the bytes are not an announcement.
        """
        json = JsonObject.decode(data, file_kind="tag/rolling-back")
        lists = json.text_map("deltaManifestLists") or {}
        return cls(
            target_id=json.integer("target"),
            delta_lists={int(snapshot_id): delta for snapshot_id, delta in lists.items()},
        )


Announced = TypeVar("Announced", ExpiryAnnouncement, RollbackAnnouncement)


@dataclass(frozen=True, slots=True)
class Announcements(Generic[Announced]):
    """The announcements of one kind for the table at `root`."""

    file_io: FileIO
    root: str
    kind: type[Announced]

    def announce(self, announcement: Announced) -> str:
        """Announce durably the versions to delete, and return the announcement's name.

        Raises:
            OSError: the file system refused; the announcement was not made, unless its deletion
                failed too.
        """
        name = f"{self.kind.PREFIX}{uuid.uuid4()}"
        try:
            self.file_io.create_if_absent(self._path(name), announcement.encode())
        except OSError:
            with contextlib.suppress(OSError):
                self.withdraw(name)
            raise
        return name

    def announcements(self, other_names: Collection[str] | None = None) -> dict[str, Announced]:
        """Return all announcements, by name.

        Args:
            other_names: the names in the folder beside the tags, if the caller has just listed it.

        Raises:
            CorruptFileError: a file is not an announcement, so the announced versions are unknown.
        """
        names = other_names
        if names is None:
            names = self.file_io.list_names(f"{self.root}/tag")
        announcement_of = {}
        for name in sorted(name for name in names if name.startswith(self.kind.PREFIX)):
            path = self._path(name)
            try:
                announcement_of[name] = self.kind.decode(self.file_io.read_bytes(path))
            except FileNotFoundError:  # withdrawn meanwhile
                continue
            except CorruptFileError as error:
                raise CorruptFileError(
                    error.problem,
                    where=path,
                    fix=f"when no {self.kind.ACTOR} of the table is running, delete the file",
                ) from error
        return announcement_of

    def withdraw(self, name: str) -> None:
        """Withdraw an announcement, if it exists."""
        self.file_io.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/tag/{name}"
