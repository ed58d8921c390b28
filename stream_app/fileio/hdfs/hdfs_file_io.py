"""Reads and writes HDFS files through the NameNode's native protocol, without Java.

`create_if_absent` writes a temporary file beside the target and renames it. The NameNode refuses
the rename if the name is taken, so any number of writers may race. Before it closes a file, the
client syncs the content to the disks of its DataNodes (`hsync`). The NameNode acknowledges a change
only when its journal has it. So `sync` does nothing.

The client waits for a NameNode that is down, on standby or in safe mode, and repeats idempotent
requests. A rename is not idempotent: if its answer is lost, the temporary file's presence shows the
outcome.

Source: Paimon `fs/hadoop/HadoopFileIO.java`, `utils/HadoopUtils.java` for options; Hadoop
`FSDirRenameOp.java`.
"""

from __future__ import annotations

import contextlib
import errno
import io
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from stream_app.clock import Clock, SystemClock
from stream_app.errors import NoAccessError, StorageError, UsageError
from stream_app.fileio.file_io import FileStatus
from stream_app.fileio.hdfs.hdfs_errors import as_os_errors, is_transient, name_and_text, os_error
from stream_app.fileio.ranged_input import TAIL_SIZE, RangedInput
from stream_app.version import install_command

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileWriter

HDFS_OPTION_PREFIX = "hadoop."
"""The prefix of options whose remaining name is a key of Hadoop's configuration, as in Paimon."""
_WRITE_BUFFER_SIZE = 1 << 20
_BLOCK_UNIT_SIZE = 512
"""The bytes of which a block's length is a multiple; the length of a file seldom is."""
_RETRY_WAIT_S = 60.0
_PAUSE_MAX_S = 8.0
_FAILOVERS_KEY = "dfs.client.failover.max.attempts"
_SINGLE_FAILOVERS = "4"
"""The failovers for a single NameNode with a port: the client gives up after 15 s."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class HdfsFileIO:
    """The file system below `root`; each process creates its client.

    Attributes:
        root: scheme and authority: ``hdfs://host:port``, ``hdfs://name-service``, ``viewfs://…``.
        settings: Hadoop's settings, which override those in ``$HADOOP_CONF_DIR``.
    """

    root: str
    settings: Mapping[str, str] = field(default_factory=dict, hash=False)
    clock: Clock = field(default_factory=SystemClock, repr=False, compare=False)

    def __reduce__(self) -> tuple[type[HdfsFileIO], tuple[str, Mapping[str, str], Clock]]:
        # Connections are not pickled.
        return HdfsFileIO, (self.root, self.settings, self.clock)

    def check_atomic_create(self, folder: str) -> None:
        """Do nothing: the NameNode promises atomic renames."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reading, and fetch the end of the file at once."""
        hdfs_path = self._hdfs_path(path)
        reader = self._retry(path, lambda: self._open_whole(hdfs_path))
        size = len(reader)

        def fetch(start: int, length: int) -> bytes:
            with contextlib.suppress(OSError, RuntimeError):
                return reader.read_range(start, length)
            # The blocks may have moved to other DataNodes.
            return self._retry(path, lambda: self._open_whole(hdfs_path).read_range(start, length))

        tail_bytes = min(size, TAIL_SIZE)
        tail = fetch(size - tail_bytes, tail_bytes) if size else b""
        return pa.PythonFile(RangedInput(fetch, size, tail), mode="r")

    def open_output(self, path: str) -> pa.NativeFile:
        """Open a new file for writing; creates missing folders."""
        writer = self._retry(path, lambda: self._create(self._hdfs_path(path)))
        return pa.BufferedOutputStream(
            pa.PythonFile(_HdfsOutput(path, writer), mode="w"), _WRITE_BUFFER_SIZE
        )

    def sync(self, path: str) -> None:
        """Do nothing: closing a file has synced it."""

    def read_bytes(self, path: str) -> bytes:
        """Read the whole file."""
        hdfs_path = self._hdfs_path(path)
        return self._retry(path, lambda: self._open_whole(hdfs_path).read())

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a new file whole."""
        self._retry(path, lambda: self._write(self._hdfs_path(path), data))

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Rename a finished temporary file to the name; the rename fails if the name is taken."""
        return self._retry(path, lambda: self._try_create(path, data))

    def overwrite(self, path: str, data: bytes) -> None:
        """Rename a finished temporary file over the name."""
        hdfs_path = self._hdfs_path(path)
        temporary_path = self._retry(path, lambda: self._write_temporary(hdfs_path, data))
        attempt_count = 0

        def rename() -> None:
            nonlocal attempt_count
            attempt_count += 1
            try:
                self._client.rename(temporary_path, hdfs_path, overwrite=True)
            except FileNotFoundError:
                # The answer to an attempt was lost: no other process deletes this temporary file.
                if attempt_count == 1:
                    raise

        self._retry(path, rename)

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        return [status.name for status in self.list_status(folder) if not status.is_folder]

    def list_status(self, folder: str) -> list[FileStatus]:
        """Return the entries of a folder."""
        hdfs_path = self._hdfs_path(folder)
        try:
            statuses = self._retry(folder, lambda: list(self._client.list_status(hdfs_path)))
        except FileNotFoundError:
            return []
        return [
            FileStatus(
                status.path.rpartition("/")[2],
                status.length,
                status.modification_time,
                status.isdir,
            )
            for status in statuses
            if status.path != hdfs_path  # it is a file
        ]

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        try:
            self._retry(path, lambda: self._client.get_file_info(self._hdfs_path(path)))
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        status = self._retry(path, lambda: self._client.get_file_info(self._hdfs_path(path)))
        if status.isdir:
            raise FileNotFoundError(errno.ENOENT, "is a folder", path)
        return status.length

    def delete(self, path: str) -> None:
        """Delete a file, bypassing the trash."""
        self._retry(path, lambda: self._client.delete(self._hdfs_path(path)))

    def sync_deletions(self, folder: str) -> None:
        """Do nothing: the NameNode answers after it has synced its log of changes."""

    def delete_empty_folder(self, folder: str) -> None:
        """Delete a folder unless it has entries."""
        try:
            self.delete(folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise

    @cached_property
    def _client(self) -> Client:
        native = import_module("hdfs_native")
        settings = dict(self.settings)
        if re.search(r":\d+$", self.root):
            settings = {_FAILOVERS_KEY: _SINGLE_FAILOVERS} | settings
        client: Client = native.Client(self.root, settings)
        return client

    def _hdfs_path(self, path: str) -> str:
        """Return a path in the NameNode's form."""
        hdfs_path = path.removeprefix(self.root).rstrip("/")
        if hdfs_path == path or (hdfs_path and not hdfs_path.startswith("/")):
            raise UsageError(
                f"{path!r} is not on {self.root}", fix="write it as the table's location begins"
            )
        return hdfs_path or "/"

    def _open_whole(self, hdfs_path: str) -> FileReader:
        """Open a file with all of its blocks.

        A NameNode may let files be closed (`dfs.namenode.file.close.num-committed-allowed`) before
        it knows that a DataNode has their last block. Until then the client omits that block.
        """
        reader = self._client.read(hdfs_path)
        ends_with_a_block = len(reader) % _BLOCK_UNIT_SIZE == 0
        if ends_with_a_block and len(reader) < self._client.get_file_info(hdfs_path).length:
            raise OSError("no DataNode has reported its last block yet")
        return reader

    def _create(self, hdfs_path: str) -> FileWriter:
        # Names are unique, so an existing file comes from an earlier attempt whose answer was lost.
        options = import_module("hdfs_native").WriteOptions(overwrite=True)
        return self._client.create(hdfs_path, options)

    def _write(self, hdfs_path: str, data: bytes) -> None:
        writer = self._create(hdfs_path)
        with _abandon_on_error(writer):
            if data:
                writer.write(data)
            _sync_and_close(writer)

    def _write_temporary(self, hdfs_path: str, data: bytes) -> str:
        folder, _, name = hdfs_path.rpartition("/")
        temporary_path = f"{folder}/.{name}.{uuid.uuid4()}.tmp"
        self._write(temporary_path, data)
        return temporary_path

    def _try_create(self, path: str, data: bytes) -> bool:
        """Try to create a file. The error says whether a retry is safe, since nothing was created.

        1. Write the temporary file.
        2. Rename it.
        3. If the rename failed or its answer was lost, delete the temporary file. If that file
           still existed, it was not renamed, and a delayed request can no longer rename it.
        4. If it did not exist, the rename had succeeded.
        """
        hdfs_path = self._hdfs_path(path)
        temporary_path = self._write_temporary(hdfs_path, data)  # 1
        try:
            self._client.rename(temporary_path, hdfs_path)  # 2
        except (OSError, RuntimeError) as error:
            if self._retry(path, lambda: self._client.delete(temporary_path)):  # 3
                if isinstance(error, FileExistsError):
                    return False
                raise
            with contextlib.suppress(FileNotFoundError):
                if self.read_bytes(path) == data:  # 4
                    return True
            raise OSError(
                errno.EIO, "an answer was lost: the file may or may not have been created", path
            ) from None
        return True

    def _retry(self, path: str, operation: Callable[[], _T]) -> _T:
        """Retry an idempotent request while the NameNode is down or starting.

        Raises:
            OSError: another error, or the NameNode stays unavailable for a minute.
        """
        deadline = self.clock.steady_seconds() + _RETRY_WAIT_S
        pause_s = 0.05
        while True:
            try:
                return operation()
            except (OSError, RuntimeError) as error:
                if not is_transient(error) or self.clock.steady_seconds() + pause_s > deadline:
                    raise os_error(error, path) from None
            self.clock.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)


class _HdfsOutput:
    """A file that is being written, as a ``pyarrow.PythonFile`` needs it."""

    def __init__(self, path: str, writer: FileWriter) -> None:
        self._path = path
        self._writer = writer
        self._written_size = 0

    @property
    def closed(self) -> bool:
        """Whether the file was completed or abandoned."""
        return self._writer.closed

    def write(self, data: bytes | pa.Buffer) -> int:
        """Send bytes to the DataNodes."""
        if len(data):
            with as_os_errors(self._path), _abandon_on_error(self._writer):
                self._writer.write(bytes(data))
        self._written_size += len(data)
        return len(data)

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._written_size

    def flush(self) -> None:
        """Do nothing: `close` sends the content."""

    def close(self) -> None:
        """Make the file durable, and report its end to the NameNode."""
        if not self.closed:
            with as_os_errors(self._path), _abandon_on_error(self._writer):
                _sync_and_close(self._writer)


def hadoop_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the Hadoop settings among the options of stores."""
    return {
        key.removeprefix(HDFS_OPTION_PREFIX): value
        for key, value in options.items()
        if key.startswith(HDFS_OPTION_PREFIX)
    }


def hdfs_file_io(location: str, options: Mapping[str, str]) -> HdfsFileIO:
    """Return the file system of an ``hdfs:`` or ``viewfs:`` location.

    Args:
        options: options other than ``hadoop.*`` are ignored.

    Raises:
        StorageError: the client is not installed, or does not know the name service.
    """
    scheme, _, path = location.partition("://")
    file_io = HdfsFileIO(f"{scheme}://{path.partition('/')[0]}", hadoop_settings(options))
    try:
        file_io._client  # noqa: B018 - created here, so that a missing part fails at once
    except ImportError:
        raise NoAccessError(
            "the client of HDFS is not installed",
            where=location,
            fix=f"{install_command('hdfs')}, on the driver and all executors",
        ) from None
    except (OSError, RuntimeError) as error:
        raise StorageError(
            f"the client of HDFS cannot open it: {name_and_text(error)[1]}",
            where=location,
            fix="give the NameNode's host and port, or set HADOOP_CONF_DIR to the folder of the "
            "cluster's core-site.xml and hdfs-site.xml, on the driver and all executors",
        ) from None
    return file_io


def _sync_and_close(writer: FileWriter) -> None:
    # Erasure-coded files cannot be synced, but several machines hold their parts.
    with contextlib.suppress(NotImplementedError):
        writer.hsync()
    writer.close()
    io.RawIOBase.close(writer)  # otherwise the writer does not count as closed


@contextlib.contextmanager
def _abandon_on_error(writer: FileWriter) -> Iterator[None]:
    """Leave a file unfinished after an error: no other process knows its name.

    An open writer would try to finish the file for 15 seconds when it is garbage-collected.
    """
    try:
        yield
    except BaseException:
        io.RawIOBase.close(writer)
        raise
