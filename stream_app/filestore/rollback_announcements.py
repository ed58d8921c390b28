"""The announcements of rollbacks: ``tag/rolling-back-<uuid>``, JSON.

They lie beside the tags for the reasons of those of expiries (`filestore.expiry_announcements`).

Source: none; these files are ours.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.rollback_announcement import RollbackAnnouncement

_PREFIX = "rolling-back-"


@dataclass(frozen=True, slots=True)
class RollbackAnnouncements:
    """Reads and writes the announcements of the table at `root`."""

    file_io: FileIO
    root: str

    def announce(self, announcement: RollbackAnnouncement) -> str:
        """Say what is going, durably; the name of what was said.

        Raises:
            OSError: the file system refused; unless it goes on to refuse, nothing was said.
        """
        name = f"{_PREFIX}{uuid.uuid4()}"
        lists = {str(number): delta for number, delta in sorted(announcement.going.items())}
        data = encode_object({"target": announcement.target, "deltaManifestLists": lists})
        try:
            self.file_io.create_if_absent(self._path(name), data)
        except OSError:
            with contextlib.suppress(OSError):
                self.withdraw(name)
            raise
        return name

    def announcements(self) -> dict[str, RollbackAnnouncement]:
        """All that are there, by name.

        Raises:
            CorruptFileError: a file is no announcement, so that nobody knows what is going.
        """
        names = self.file_io.list_names(f"{self.root}/tag")
        found = {}
        for name in sorted(name for name in names if name.startswith(_PREFIX)):
            path = self._path(name)
            try:
                found[name] = _announcement(self.file_io.read_bytes(path))
            except FileNotFoundError:  # withdrawn meanwhile
                continue
            except CorruptFileError as error:
                raise CorruptFileError(
                    error.what,
                    where=path,
                    fix="when no rollback of the table is running, delete the file",
                ) from error
        return found

    def withdraw(self, name: str) -> None:
        """Take back what was said; nothing happens when it is not there."""
        self.file_io.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/tag/{name}"


def _announcement(data: bytes) -> RollbackAnnouncement:
    json = JsonObject.decode(data, what="tag/rolling-back")
    lists = json.text_map("deltaManifestLists") or {}
    return RollbackAnnouncement(
        target=json.integer("target"),
        going={int(number): delta for number, delta in lists.items()},
    )
