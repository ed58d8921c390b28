"""Manages a table's tag files: ``tag/tag-<name>``.

With ``tag.create-success-file`` each tag also has a file ``tag/tag-success-file/<name>_SUCCESS``,
for programs that wait for the tag. The writer creates it after the tag, and deletes it before the
tag.

Source: Paimon `utils/TagManager.java`, `tag/SuccessFileTagCallback.java`,
`partition/file/SuccessFile.java`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from stream_app.errors import CorruptFileError, UsageError
from stream_app.fileio.file_io import FileIO, FileStatus
from stream_app.format.json_object import JsonObject, encode_object
from stream_app.format.snapshot_json import decode_tag, encode_tag
from stream_app.model.tag import Tag

_PREFIX = "tag-"
_SUCCESS_FOLDER = "success-file"
"""The rest of the name of the success files' folder, after the prefix."""


@dataclass(frozen=True, slots=True)
class TagFolder:
    """The content of the tag folder at one moment.

    Attributes:
        tags: name of a tag → the status of its file.
        other_names: the names of all other files, including announcements.
    """

    tags: Mapping[str, FileStatus]
    other_names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TagManager:
    """The tags of the table at `root`.

    Attributes:
        has_success_files: ``tag.create-success-file``.
    """

    file_io: FileIO
    root: str
    has_success_files: bool = False

    def names(self) -> list[str]:
        """Return the names of all tags, in order."""
        names = self.file_io.list_names(f"{self.root}/tag")
        return sorted(name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX))

    def statuses(self) -> Mapping[str, FileStatus]:
        """Return tag name → status of its file, which differs if the tag was replaced."""
        return self.folder().tags

    def folder(self) -> TagFolder:
        """List the folder, and return its content."""
        files = [
            status
            for status in self.file_io.list_status(f"{self.root}/tag")
            if not status.is_folder
        ]
        return TagFolder(
            tags={
                status.name.removeprefix(_PREFIX): status
                for status in files
                if status.name.startswith(_PREFIX)
            },
            other_names=tuple(
                status.name for status in files if not status.name.startswith(_PREFIX)
            ),
        )

    def tag(self, name: str) -> Tag | None:
        """Return the tag of a name; None if it does not exist.

        Raises:
            CorruptFileError: the file is not a tag.
        """
        path = self._path(name)
        try:
            data = self.file_io.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        try:
            return decode_tag(name, data)
        except CorruptFileError as error:
            raise CorruptFileError(
                error.problem,
                where=path,
                fix=f"delete the tag: stream-app delete-tag {shlex.quote(self.root)} "
                f"{shlex.quote(name)} (and then its orphans: stream-app remove-orphan-files); or "
                f"restore the file from a backup",
            ) from error

    def check_name(self, name: str) -> None:
        """Check that a new tag can have this name.

        Raises:
            UsageError: it cannot have it.
        """
        if name == _SUCCESS_FOLDER:  # Paimon has a folder at the path of its file
            raise self._wrong_name_error(name)
        self._path(name)

    def create(self, tag: Tag) -> bool:
        """Create a tag; False if the name is taken.

        Raises:
            UsageError: no tag can have this name.
        """
        self.check_name(tag.name)
        return self.file_io.create_if_absent(self._path(tag.name), encode_tag(tag))

    def delete(self, *names: str) -> None:
        """Delete tags durably; ignores names without a tag."""
        for name in names:
            path = self._path(name)
            if self.has_success_files:  # first, so that it never outlives its tag
                self.file_io.delete(self._success_path(name))
            self.file_io.delete(path)
        if names:
            self.sync_deletions()

    def sync_deletions(self) -> None:
        """Sync the folder, so that no deleted tag reappears after a crash of the machine."""
        self.file_io.sync_deletions(f"{self.root}/tag")

    def tags(self, *, excluded_names: Collection[str] = ()) -> list[Tag]:
        """Return all tags except those in `excluded_names`, in the order of their snapshots.

        Raises:
            CorruptFileError: a file is not a tag.
        """
        return self.tags_named(name for name in self.names() if name not in excluded_names)

    def tags_named(self, names: Iterable[str]) -> list[Tag]:
        """Return the existing tags of these names, in the order of their snapshots.

        Raises:
            CorruptFileError: a file is not a tag.
        """
        tags = [tag for name in names if (tag := self.tag(name)) is not None]
        return sorted(tags, key=lambda tag: (tag.snapshot.snapshot_id, tag.name))

    def write_success_file(self, name: str, now_ms: int) -> None:
        """Write the success file of a tag; does nothing without ``tag.create-success-file``.

        Args:
            now_ms: milliseconds since 1970 in UTC; an existing success file keeps its creation
                time.
        """
        if not self.has_success_files:
            return
        path = self._success_path(name)
        creation_time_ms = now_ms
        try:
            data = self.file_io.read_bytes(path)
            creation_time_ms = JsonObject.decode(data, file_kind="success file").integer(
                "creationTime"
            )
        except (FileNotFoundError, CorruptFileError):
            pass
        times = {"creationTime": creation_time_ms, "modificationTime": now_ms}
        self.file_io.overwrite(path, encode_object(times))

    def _path(self, name: str) -> str:
        if not name.strip() or re.search(r"[/\\\x00-\x1f]", name):
            raise self._wrong_name_error(name)
        return f"{self.root}/tag/{_PREFIX}{name}"

    def _success_path(self, name: str) -> str:
        return f"{self.root}/tag/{_PREFIX}{_SUCCESS_FOLDER}/{name}_SUCCESS"

    def _wrong_name_error(self, name: str) -> UsageError:
        return UsageError(
            f"a tag cannot be named {name!r}",
            where=self.root,
            fix="give a name that a file can have, such as 2026-01-31",
        )
