"""A store that takes every PUT, made safe among the jobs that share a lock file.

A writer holds the lock (``flock``) while it checks for an object and puts it. That separates only
writers with the same lock; other engines ignore it. So each lock leaves a mark in the table's
folder, and a writer refuses a table with the mark of another lock.

Its limit: a request may still be on its way when its sender dies, or gives up. It then arrives
after the lock is free, and may replace the next committer's snapshot.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stream_app.errors import NoAccessError
from stream_app.fileio.s3.s3_file_io import S3FileIO

_MARK = ".create-lock-"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class LockedS3FileIO(S3FileIO):
    """As `S3FileIO`; a writer holds ``s3.create-lock-file`` while it creates an object."""

    def check_atomic_create(self, folder: str) -> None:
        """Check that no job writes the table under another lock.

        1. Leave the mark of this lock.
        2. Look for others. Of two writers with different locks that start at once, the one that
           checks later sees both marks. So at most one continues.

        Raises:
            NoAccessError: there is another mark, or no such lock file can be made.
        """
        with self._held() as lock:
            name = lock.read_text()
            if not name:
                name = str(uuid.uuid4())
                lock.write_text(name)
        self.overwrite(f"{folder}/{_MARK}{name}", str(lock).encode())  # 1
        marks = [mark for mark in self.list_names(folder) if mark.startswith(_MARK)]  # 2
        others = sorted(set(marks) - {_MARK + name})
        if others:
            raise NoAccessError(
                f"the table is written under another lock than {str(lock)!r}: two different "
                f"locks protect nothing",
                where=f"{folder}/{others[0]}",
                fix="name the same s3.create-lock-file in all jobs, on a path that all of their "
                "drivers share; when no job uses the other lock any more, delete this object and "
                f"{_MARK}{name}",
            )
        _LOG.warning(
            "%s is protected only by the lock %s: only jobs of stream_app that name the same "
            "file may write it, and no other engine",
            folder,
            lock,
        )

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Look and put under the lock; on the condition as well, for a store that minds it."""
        with self._held():
            return not self.exists(path) and super().create_if_absent(path, data)

    @contextlib.contextmanager
    def _held(self) -> Iterator[Path]:
        assert self.options.create_lock_file is not None
        path = Path(self.options.create_lock_file)
        try:
            file = path.open("a")
        except OSError as error:
            raise NoAccessError(
                f"the lock file cannot be opened: {error.strerror}",
                where=str(path),
                fix="set s3.create-lock-file to a file in an existing folder, on a path that all "
                "drivers share",
            ) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield path
