"""The tag files of a table: ``tag/tag-<name>``.

Source: Paimon `utils/TagManager.java`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.format.tag_json import decode_tag
from stream_app.model.tag import Tag

_PREFIX = "tag-"


@dataclass(frozen=True, slots=True)
class TagManager:
    """Reads tags of the table at `root`."""

    file_io: FileIO
    root: str

    def names(self) -> list[str]:
        """The names of all tags, in order."""
        names = self.file_io.list_names(f"{self.root}/tag")
        return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))

    def tag(self, name: str) -> Tag | None:
        """The tag of a name; None when there is none.

        Raises:
            CorruptFileError: its file is no tag.
        """
        path = f"{self.root}/tag/{_PREFIX}{name}"
        try:
            data = self.file_io.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return decode_tag(name, data)
        except CorruptFileError as error:
            raise CorruptFileError(error.what, where=path, fix=error.fix) from error

    def tags(self) -> list[Tag]:
        """All tags, in the order of their snapshots."""
        found = [tag for name in self.names() if (tag := self.tag(name)) is not None]
        return sorted(found, key=lambda tag: (tag.snapshot.snapshot_id, tag.name))
