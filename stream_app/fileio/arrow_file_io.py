"""Tables on HDFS and whatever else Arrow can read, for reading only.

Arrow's file systems overwrite: they cannot create a file only if there is none, and by their
contract (`pyarrow.fs.FileSystem.move`) a rename replaces the file that is there. A snapshot cannot
be published safely by such means, and there is no lock to be had that other engines would heed, so
writing is refused always.

Source: Paimon `fs/hadoop/HadoopFileIO.java`, whose renames, by Java's client, do not replace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import pyarrow as pa
from pyarrow import fs

from stream_app.errors import StorageError
from stream_app.fileio.atomic_create import no_atomic_create
from stream_app.fileio.file_io import FileStatus

_REASON = "Arrow's client replaces the one that is there"


@dataclass(frozen=True)
class ArrowFileIO:
    """A file system of Arrow.

    Attributes:
        root: scheme and host that paths begin with, which Arrow does not want to see.
    """

    file_system: fs.FileSystem
    root: str = ""

    def check_atomic_create(self, folder: str) -> None:
        """There is none."""
        self._refuse(folder)

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for random reading."""
        return self.file_system.open_input_file(self._path(path))

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        with self.open_input(path) as source:
            return bytes(source.read())

    def list_names(self, folder: str) -> list[str]:
        """Names in a folder."""
        return [status.name for status in self.list_status(folder)]

    def list_status(self, folder: str) -> list[FileStatus]:
        """What lies in a folder."""
        chosen = fs.FileSelector(self._path(folder), allow_not_found=True)
        found = []
        for each in self.file_system.get_file_info(chosen):
            is_folder = each.type == fs.FileType.Directory
            size = 0 if is_folder else each.size
            millis = (each.mtime_ns or 0) // 1_000_000
            found.append(FileStatus(each.base_name, size, millis, is_folder))
        return found

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return bool(self._info(path).type != fs.FileType.NotFound)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        info = self._info(path)
        if info.type != fs.FileType.File:
            raise FileNotFoundError(path)
        return int(info.size)

    def open_output(self, path: str) -> pa.NativeFile:
        """Refused."""
        self._refuse(path)

    def sync(self, path: str) -> None:
        """Refused."""
        self._refuse(path)

    def write_bytes(self, path: str, data: bytes) -> None:  # noqa: ARG002
        """Refused."""
        self._refuse(path)

    def create_if_absent(self, path: str, data: bytes) -> bool:  # noqa: ARG002
        """Refused."""
        self._refuse(path)

    def overwrite(self, path: str, data: bytes) -> None:  # noqa: ARG002
        """Refused."""
        self._refuse(path)

    def delete(self, path: str) -> None:
        """Refused."""
        self._refuse(path)

    def delete_empty_folder(self, folder: str) -> None:
        """Refused."""
        self._refuse(folder)

    def _info(self, path: str) -> fs.FileInfo:
        return self.file_system.get_file_info(self._path(path))

    def _path(self, path: str) -> str:
        return path.removeprefix(self.root)

    def _refuse(self, path: str) -> NoReturn:
        raise no_atomic_create(path, _REASON)


def hadoop_file_io(location: str) -> ArrowFileIO:
    """The file system of an ``hdfs:`` or ``viewfs:`` location, by Hadoop's own client.

    Raises:
        StorageError: the client is not installed, or does not reach the file system.
    """
    scheme, _, rest = location.partition("://")
    host = rest.partition("/")[0]
    try:
        file_system, _ = fs.FileSystem.from_uri(location)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(
            f"Hadoop's client cannot open it: {error}",
            where=location,
            fix="set JAVA_HOME, HADOOP_HOME and CLASSPATH (`hadoop classpath --glob`), and "
            "ARROW_LIBHDFS_DIR where libhdfs.so lies elsewhere, on the driver and all executors",
        ) from None
    return ArrowFileIO(file_system, f"{scheme}://{host}")
