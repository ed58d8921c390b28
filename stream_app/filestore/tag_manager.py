"""The tag files of a table: ``tag/tag-<name>``.

Source: Paimon `utils/TagManager.java`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stream_app.errors import CorruptFileError, UsageError
from stream_app.fileio.file_io import FileIO, FileStatus
from stream_app.format.tag_json import decode_tag, encode_tag
from stream_app.model.tag import Tag

_PREFIX = "tag-"


@dataclass(frozen=True, slots=True)
class TagManager:
    """Reads and writes tags of the table at `root`."""

    file_io: FileIO
    root: str

    def names(self) -> list[str]:
        """The names of all tags, in order."""
        names = self.file_io.list_names(f"{self.root}/tag")
        return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))

    def statuses(self) -> dict[str, FileStatus]:
        """The files of all tags, by name: one that has changed belongs to another tag."""
        return {
            status.name.removeprefix(_PREFIX): status
            for status in self.file_io.list_status(f"{self.root}/tag")
            if status.name.startswith(_PREFIX) and not status.is_folder
        }

    def tag(self, name: str) -> Tag | None:
        """The tag of a name; None when there is none.

        Raises:
            CorruptFileError: its file is no tag.
        """
        path = self._path(name)
        try:
            data = self.file_io.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return decode_tag(name, data)
        except CorruptFileError as error:
            raise CorruptFileError(
                error.what,
                where=path,
                fix="delete the file (and then what only the tag held, by stream-app "
                "remove-orphan-files), or restore it from a backup",
            ) from error

    def create(self, tag: Tag) -> bool:
        """Give a name to a snapshot; False when the name is taken."""
        return self.file_io.create_if_absent(self._path(tag.name), encode_tag(tag))

    def delete(self, *names: str) -> None:
        """Take names away for good; nothing happens when there are none."""
        for name in names:
            self.file_io.delete(self._path(name))
        if names:
            self.sync_deletions()

    def sync_deletions(self) -> None:
        """Let no tag that anybody has deleted come back after a crash of the machine."""
        self.file_io.sync_deletions(f"{self.root}/tag")

    def tags(self) -> list[Tag]:
        """All tags, in the order of their snapshots."""
        found = [tag for name in self.names() if (tag := self.tag(name)) is not None]
        return sorted(found, key=lambda tag: (tag.snapshot.snapshot_id, tag.name))

    def _path(self, name: str) -> str:
        if not name.strip() or re.search(r"[/\\\x00-\x1f]", name):
            raise UsageError(
                f"a tag cannot be named {name!r}",
                where=self.root,
                fix="give a name that a file can have, such as 2026-01-31",
            )
        return f"{self.root}/tag/{_PREFIX}{name}"
