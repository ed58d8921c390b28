"""Checks that files exist with their recorded size; lists each folder once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stream_app.model.finding import Finding, FindingKind
from stream_app.table.file_store_table import FileStoreTable

_FIX = (
    "restore the file from a backup; or roll the table back to a snapshot or tag that does not "
    "need it: stream-app rollback-to"
)


@dataclass(slots=True)
class FilePresence:
    """The files of a table's folders. A folder is listed on first use; later files stay unseen."""

    table: FileStoreTable
    _folders: dict[str, dict[str, int]] = field(init=False, default_factory=dict)
    _schemas: frozenset[int] | None = field(init=False, default=None)

    def schemas(self) -> frozenset[int]:
        """Return the numbers of the existing schemas."""
        if self._schemas is None:
            self._schemas = frozenset(self.table.schemas.ids())
        return self._schemas

    def findings(self, path: str, size: int | None) -> Iterator[Finding]:
        """Yield the problems of a file that must exist.

        Args:
            size: the recorded size in bytes; None if it was not recorded.
        """
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            statuses = self.table.file_io.list_status(folder)
            self._folders[folder] = {
                status.name: status.size for status in statuses if not status.is_folder
            }
        actual_size = self._folders[folder].get(name)
        if actual_size is None:
            problem = "a file is missing"
            yield Finding(kind=FindingKind.FILE_MISSING, problem=problem, where=path, fix=_FIX)
        elif size is not None and actual_size != size:
            problem = f"a file has {actual_size} bytes, but the file that names it says {size}"
            yield Finding(kind=FindingKind.FILE_SIZE, problem=problem, where=path, fix=_FIX)
