"""Files of a file system that Hadoop alone knows, by way of Spark's JVM.

For a checkpoint or a quarantine on what our own `FileIO` does not speak: WebHDFS, a store of
another cloud. `app.job.job_folders` chooses.

Source: Hadoop's `FileSystem` and `FileContext`, as Spark's `CheckpointFileManager` uses them.
"""

from __future__ import annotations

import errno
import uuid
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from stream_app.spark.task_errors import first_line


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """Files of any file system that Spark's Hadoop has the jars and settings for.

    `overwrite` replaces a file by a rename, which is as whole as the file system makes it. Paths
    begin with a scheme.
    """

    spark: SparkSession

    def read_bytes(self, path: str) -> bytes:
        """The whole file."""
        try:
            stream = self._file_system(path).open(self._path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise _error(error, path) from None

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        try:
            return bool(self._file_system(path).exists(self._path(path)))
        except Py4JJavaError as error:
            raise _error(error, path) from None

    def sync(self, path: str) -> None:
        """Nothing: a file that is closed there outlives the crash of a client."""

    def overwrite(self, path: str, data: bytes) -> None:
        """Write beside it, and rename."""
        folder, _, name = path.rpartition("/")
        temporary = self._path(f"{folder}/.{name}.{uuid.uuid4()}.tmp")
        try:
            stream = self._file_system(path).create(temporary)
            try:
                stream.write(data)
                stream.hsync()
            finally:
                stream.close()
            hadoop, target = self._jvm.org.apache.hadoop.fs, self._path(path)
            rename, gateway = getattr(hadoop, "Options$Rename"), SparkContext._gateway
            assert gateway is not None, "the session has one"
            how = gateway.new_array(rename, 1)
            how[0] = rename.OVERWRITE
            hadoop.FileContext.getFileContext(target.toUri(), self._configuration).rename(
                temporary, target, how
            )
        except Py4JJavaError as error:
            raise _error(error, path) from None

    @property
    def _jvm(self) -> Any:
        return self.spark.sparkContext._jvm

    @property
    def _configuration(self) -> Any:
        return self.spark.sparkContext._jsc.hadoopConfiguration()

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _file_system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._configuration)


def _error(error: Py4JJavaError, path: str) -> OSError:
    """Java's error as the operating system's."""
    kind = error.java_exception.getClass().getSimpleName()
    if kind == "FileNotFoundException":
        return FileNotFoundError(errno.ENOENT, "there is no such file", path)
    said = f"{kind}: {first_line(Exception(error.java_exception.getMessage() or ''))}"
    found = OSError(errno.EIO, said, path)
    found.add_note(
        "check that Spark has the file system's jars (spark.jars, spark.jars.packages) and "
        "settings "
        "(spark.hadoop.…)"
    )
    return found
