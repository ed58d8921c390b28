"""What expiries and rollbacks announce: ``tag/expiring-<uuid>`` and ``tag/rolling-back-<uuid>``.

JSON, a file for each of them, so that none takes back another's. They lie beside the tags. Paimon's
orphan removal deletes unknown files from the folders of snapshots and changelogs. In this folder
every engine ignores names without the prefix ``tag-``.

Source: none; these files are ours.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.format.json_object import JsonObject, encode_object

Announced = TypeVar("Announced")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryAnnouncement:
    """An expiry is deleting snapshots; they may be half deleted.

    Attributes:
        begin, end: the numbers from `begin` up to, and without, `end`.
        end_list: the delta list of the snapshot `end`, which stays: no other snapshot has it, also
            when its number is given again after a rollback.
        tagged: those of the numbers whose files stay, because they have tags.
    """

    begin: int
    end: int
    end_list: str
    tagged: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackAnnouncement:
    """A rollback is deleting everything behind one version.

    Attributes:
        target: the number of that version.
        going: the delta lists of the expiring snapshots, by number; "" for an unreadable one.
    """

    target: int
    going: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementKind(Generic[Announced]):
    """The announcing kind of process, and its files.

    Attributes:
        actor: the process that announces, as messages call it.
        prefix: of the files' names.
        encode, decode: between what is announced and the file's bytes.
    """

    actor: str
    prefix: str
    encode: Callable[[Announced], bytes]
    decode: Callable[[bytes], Announced]


@dataclass(frozen=True, slots=True)
class Announcements(Generic[Announced]):
    """Reads and writes the announcements of one kind, of the table at `root`."""

    file_io: FileIO
    root: str
    kind: AnnouncementKind[Announced]

    def announce(self, announcement: Announced) -> str:
        """Announce the versions to delete, durably; the name of the announcement.

        Raises:
            OSError: the file system refused; the announcement was not made, unless its deletion
                failed too.
        """
        name = f"{self.kind.prefix}{uuid.uuid4()}"
        try:
            self.file_io.create_if_absent(self._path(name), self.kind.encode(announcement))
        except OSError:
            with contextlib.suppress(OSError):
                self.withdraw(name)
            raise
        return name

    def announcements(self, listed: Collection[str] | None = None) -> dict[str, Announced]:
        """All that are there, by name.

        Args:
            listed: the folder's names, if the caller has just listed it.

        Raises:
            CorruptFileError: a file is no announcement, so the announced versions are unknown.
        """
        names = self.file_io.list_names(f"{self.root}/tag") if listed is None else listed
        announced = {}
        for name in sorted(name for name in names if name.startswith(self.kind.prefix)):
            path = self._path(name)
            try:
                announced[name] = self.kind.decode(self.file_io.read_bytes(path))
            except FileNotFoundError:  # withdrawn meanwhile
                continue
            except CorruptFileError as error:
                raise CorruptFileError(
                    error.what,
                    where=path,
                    fix=f"when no {self.kind.actor} of the table is running, delete the file",
                ) from error
        return announced

    def withdraw(self, name: str) -> None:
        """Withdraw an announcement; nothing happens when it is not there."""
        self.file_io.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/tag/{name}"


def _encode_expiry(announcement: ExpiryAnnouncement) -> bytes:
    return encode_object(
        {
            "begin": announcement.begin,
            "end": announcement.end,
            "endDeltaManifestList": announcement.end_list,
            "tagged": sorted(announcement.tagged),
        }
    )


def _decode_expiry(data: bytes) -> ExpiryAnnouncement:
    json = JsonObject.decode(data, what="tag/expiring")
    return ExpiryAnnouncement(
        begin=json.integer("begin"),
        end=json.integer("end"),
        end_list=json.text("endDeltaManifestList"),
        tagged=frozenset(json.items("tagged")),
    )


def _encode_rollback(announcement: RollbackAnnouncement) -> bytes:
    lists = {str(number): delta for number, delta in sorted(announcement.going.items())}
    return encode_object({"target": announcement.target, "deltaManifestLists": lists})


def _decode_rollback(data: bytes) -> RollbackAnnouncement:
    json = JsonObject.decode(data, what="tag/rolling-back")
    lists = json.text_map("deltaManifestLists") or {}
    return RollbackAnnouncement(
        target=json.integer("target"),
        going={int(number): delta for number, delta in lists.items()},
    )


EXPIRIES = AnnouncementKind(
    actor="expiry", prefix="expiring-", encode=_encode_expiry, decode=_decode_expiry
)
ROLLBACKS = AnnouncementKind(
    actor="rollback", prefix="rolling-back-", encode=_encode_rollback, decode=_decode_rollback
)
