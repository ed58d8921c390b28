"""Keeps local copies of a table's data files on this machine, shared by all tasks of one user.

A data file never changes and its name is unique, so a copy is never stale. A task writes a copy's
folder under a temporary name and renames it, so a folder with its final name is complete. The
folder's timestamp is the time until which an unused copy is kept. So any task can delete expired
copies, including those of abandoned tables and killed tasks. A task that has mapped a copy can read
it even after another task has deleted it.

A lost or damaged copy is recreated from the table.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from stream_app.clock import Clock
from stream_app.filestore.local_copies.copies_to_delete import KeptCopy, copies_to_delete
from stream_app.filestore.local_copies.lookup_copy import (
    BROKEN,
    HashesOf,
    LookupCopy,
    TooLargeError,
    write_copy,
)
from stream_app.process.local_disk import kept_folder

_LOG = logging.getLogger(__name__)
HIT, MISS, MADE, EVICTED, DAMAGED = (
    f"lookup_{event}" for event in ("hit", "miss", "made", "evicted", "damaged")
)
"""The counted events; a copy that is too old, or exceeds the bytes, is evicted."""
EVENTS = (HIT, MISS, MADE, EVICTED, DAMAGED)
COPIED_BYTES = "lookup_copied_bytes"
"""Bytes of the copies that were made."""
_UNFINISHED_PREFIX, _UNFINISHED_AGE_MAX_MS = ".making-", 86_400_000
"""The name of an unfinished copy, and the age after which its task is surely gone."""


def local_copies_folder() -> Path:
    """Return the folder for all tables, below the temporary folder of the cluster's tasks."""
    return kept_folder("lookup")


def copies_size(root: Path) -> int:
    """Return the bytes of all tables' copies on this machine."""
    with contextlib.suppress(OSError):  # the folder does not exist
        return sum(copy.size for folder in root.iterdir() for copy in _kept_copies(folder))
    return 0


def _ignore_counts(_: Mapping[str, int]) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """The file and the columns of a copy.

    Attributes:
        path: the path of the data file.
        columns: the id and type of each column, which determine its values: a column may be dropped
            and added again, or get another type.
        schema: the schema of the rows, with the system columns.
    """

    path: str
    columns: tuple[str, ...]
    schema: pa.Schema
    row_count: int

    @property
    def name(self) -> str:
        """The copy's name."""
        system = self.schema.to_string(show_field_metadata=False)
        return _name(self.path, system, *self.columns)


@dataclass(frozen=True, slots=True)
class LookupCopies:
    """The copies of one table.

    Attributes:
        root: the folder of all tables' copies.
        table_location: the table's folder.
        retention_ms: the time for which an unused copy stays (``lookup.cache-file-retention``).
        bytes_max: the maximum bytes of all copies of the table (``lookup.cache-max-disk-size``);
            None: no limit.
        add_counts: receives the counts of `EVENTS` and `COPIED_BYTES`.
    """

    root: Path
    table_location: str
    retention_ms: int
    bytes_max: int | None
    clock: Clock
    add_counts: Callable[[Mapping[str, int]], None] = field(default=_ignore_counts, compare=False)

    def find(self, file: CopiedFile) -> LookupCopy | None:
        """Return the copy of a data file, or None. It deletes a damaged copy."""
        copy = self._find(file)
        self.add_counts({MISS if copy is None else HIT: 1})
        return copy

    def _find(self, file: CopiedFile) -> LookupCopy | None:
        folder = self._table_folder / file.name
        try:
            self._check_owner()
            copy = LookupCopy.open(folder, file.schema, file.row_count)
        except PermissionError:
            return None
        except BROKEN as error:
            if folder.exists():
                self.delete_damaged_copies(file, error)
            return None
        with contextlib.suppress(OSError):  # it is read-only, or being deleted
            self._renew(folder)
        return copy

    def create(
        self, file: CopiedFile, rows: Iterable[pa.RecordBatch], hashes_of: HashesOf
    ) -> LookupCopy | None:
        """Copy a data file; None if the disk has no room or fails. Another task may copy it too.

        Raises:
            CorruptFileError: the rows cannot be read.
        """
        self.delete_outdated_copies()
        try:
            with self._unfinished_copy() as unfinished_path:
                write_copy(
                    unfinished_path,
                    rows,
                    file.row_count,
                    hashes_of=hashes_of,
                    bytes_max=self._effective_bytes_max(),
                )
                self.add_counts({MADE: 1, COPIED_BYTES: _size(unfinished_path)})
                self._renew(unfinished_path)
                with contextlib.suppress(OSError):  # another task has made the copy
                    unfinished_path.rename(self._table_folder / file.name)
        except TooLargeError:
            return None
        except OSError as error:
            _LOG.warning(
                "no local copy of %s for lookups, which read it itself: %s", file.path, error
            )
            return None
        self.delete_outdated_copies()
        return self._find(file)

    def delete_damaged_copies(self, file: CopiedFile, error: Exception) -> None:
        """Delete the copy of a data file, which is damaged."""
        _LOG.warning("the local copy of %s is damaged, and deleted: %s", file.path, error)
        self.add_counts({DAMAGED: 1})
        self._delete(self._table_folder / file.name)

    def delete_outdated_copies(self) -> None:
        """Delete outdated copies of every table, and this table's copies beyond its limit."""
        with contextlib.suppress(OSError):  # the folder does not exist, or cannot be read
            for other_folder in sorted(self.root.iterdir()):
                is_own = other_folder == self._table_folder
                bytes_max = self.bytes_max if is_own else None
                now_ms = self.clock.now_ms()
                for copy in copies_to_delete(
                    _kept_copies(other_folder), now_ms=now_ms, bytes_max=bytes_max
                ):
                    was_complete = not copy.name.startswith(_UNFINISHED_PREFIX)
                    if self._delete(other_folder / copy.name) and was_complete:
                        self.add_counts({EVICTED: 1})
                if not is_own:
                    with contextlib.suppress(OSError):  # it still has another table's copies
                        other_folder.rmdir()

    @property
    def _table_folder(self) -> Path:
        return self.root / _name(self.table_location)

    @contextlib.contextmanager
    def _unfinished_copy(self) -> Iterator[Path]:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_owner()
        self._table_folder.mkdir(exist_ok=True, mode=0o700)
        folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED_PREFIX, dir=self._table_folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _effective_bytes_max(self) -> int:
        """Return a copy's maximum size: half of the disk's free bytes, or the table's limit."""
        half_of_free = shutil.disk_usage(self._table_folder).free // 2
        return half_of_free if self.bytes_max is None else min(half_of_free, self.bytes_max)

    def _check_owner(self) -> None:
        """Refuse a folder in which another user may write."""
        for folder in (self.root, self.root.parent):
            if folder.stat().st_uid != os.getuid():
                raise PermissionError(f"{folder} belongs to another user")

    def _renew(self, folder: Path) -> None:
        kept_until_s = (self.clock.now_ms() + self.retention_ms) / 1000
        os.utime(folder, (kept_until_s, kept_until_s))

    def _delete(self, folder: Path) -> bool:
        """Rename, then delete: a final name means a whole copy. False: another task deletes it."""
        renamed_folder = folder.with_name(f"{_UNFINISHED_PREFIX}{folder.name}-{os.getpid()}")
        try:
            folder.rename(renamed_folder)
        except OSError:
            return False
        shutil.rmtree(renamed_folder, ignore_errors=True)
        return True


def _kept_copies(folder: Path) -> Iterator[KeptCopy]:
    with contextlib.suppress(OSError):  # another task deletes it
        for copy in folder.iterdir():
            with contextlib.suppress(OSError):
                size = _size(copy)
                kept_until_ms = int(copy.stat().st_mtime * 1000)
                if copy.name.startswith(_UNFINISHED_PREFIX):
                    kept_until_ms += _UNFINISHED_AGE_MAX_MS
                yield KeptCopy(copy.name, size, kept_until_ms)


def _size(copy: Path) -> int:
    return sum(file.stat().st_size for file in copy.iterdir())


def _name(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
