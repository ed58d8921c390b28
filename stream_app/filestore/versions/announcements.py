"""What expiries and rollbacks announce: ``tag/expiring-<uuid>`` and ``tag/rolling-back-<uuid>``.

JSON, a file for each of them, so that none takes back another's. They lie beside the tags, because
Paimon's cleaning of orphans deletes what it does not know from the folders of snapshots and
changelogs, and no other engine minds a name here that does not begin with ``tag-``.

Source: none; these files are ours.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.announcements import ExpiryAnnouncement, RollbackAnnouncement

Announced = TypeVar("Announced")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementKind(Generic[Announced]):
    """Of whom, and in which files.

    Attributes:
        who: announces, as a word for people.
        prefix: of the files' names.
        encode, decode: between what is announced and the file's bytes.
    """

    who: str
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
        """Say what is going, durably; the name of what was said.

        Raises:
            OSError: the file system refused; unless it goes on to refuse, nothing was said.
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
            listed: names that lie in the folder, where somebody has listed it just now.

        Raises:
            CorruptFileError: a file is no announcement, so that nobody knows what is going.
        """
        names = self.file_io.list_names(f"{self.root}/tag") if listed is None else listed
        found = {}
        for name in sorted(name for name in names if name.startswith(self.kind.prefix)):
            path = self._path(name)
            try:
                found[name] = self.kind.decode(self.file_io.read_bytes(path))
            except FileNotFoundError:  # withdrawn meanwhile
                continue
            except CorruptFileError as error:
                raise CorruptFileError(
                    error.what,
                    where=path,
                    fix=f"when no {self.kind.who} of the table is running, delete the file",
                ) from error
        return found

    def withdraw(self, name: str) -> None:
        """Take back what was said; nothing happens when it is not there."""
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
    who="expiry", prefix="expiring-", encode=_encode_expiry, decode=_decode_expiry
)
ROLLBACKS = AnnouncementKind(
    who="rollback", prefix="rolling-back-", encode=_encode_rollback, decode=_decode_rollback
)
