"""The announcements of expiries: ``tag/expiring-<uuid>``, JSON, a file for each expiry.

They lie beside the tags, because Paimon's cleaning of orphans deletes what it does not know from
the folders of snapshots and changelogs, and no other engine minds a name here that does not begin
with ``tag-``. Each expiry has a file of its own, so that none takes back another's.

Source: none; these files are ours.
"""

from __future__ import annotations

import contextlib
import uuid
from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.model.expiry_announcement import ExpiryAnnouncement

_PREFIX = "expiring-"


@dataclass(frozen=True, slots=True)
class ExpiryAnnouncements:
    """Reads and writes the announcements of the table at `root`."""

    file_io: FileIO
    root: str

    def announce(self, announcement: ExpiryAnnouncement) -> str:
        """Say what is going, durably; the name of what was said.

        Raises:
            OSError: the file system refused; unless it goes on to refuse, nothing was said.
        """
        name = f"{_PREFIX}{uuid.uuid4()}"
        data = encode_object(
            {
                "begin": announcement.begin,
                "end": announcement.end,
                "endDeltaManifestList": announcement.end_list,
                "tagged": sorted(announcement.tagged),
            }
        )
        try:
            self.file_io.create_if_absent(self._path(name), data)
        except OSError:
            with contextlib.suppress(OSError):
                self.withdraw(name)
            raise
        return name

    def announcements(self) -> dict[str, ExpiryAnnouncement]:
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
                    fix="when no expiry of the table is running, delete the file",
                ) from error
        return found

    def withdraw(self, name: str) -> None:
        """Take back what was said; nothing happens when it is not there."""
        self.file_io.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.root}/tag/{name}"


def _announcement(data: bytes) -> ExpiryAnnouncement:
    json = JsonObject.decode(data, what="tag/expiring")
    return ExpiryAnnouncement(
        begin=json.integer("begin"),
        end=json.integer("end"),
        end_list=json.text("endDeltaManifestList"),
        tagged=frozenset(json.items("tagged")),
    )
