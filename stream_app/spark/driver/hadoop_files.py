"""Reads and writes file systems that only Hadoop knows, through Spark's JVM.

A checkpoint or a quarantine may be on a system that stream_app's `FileIO` does not support, such as
WebHDFS or another cloud's store. `app.opening.job_folder_access` chooses the implementation.

Source: Hadoop's `FileSystem` and `FileContext`, as Spark's `CheckpointFileManager` uses them.
"""

from __future__ import annotations

import contextlib
import errno
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from stream_app.epochs.task_errors import first_line
from stream_app.spark.driver.jvm_access import java_array, java_context, jvm


@dataclass(frozen=True, slots=True)
class HadoopFiles:
    """Files of any file system for which Spark's Hadoop has jars and settings.

    `overwrite` replaces a file by a rename, and is as atomic as the file system's rename. Paths
    begin with a scheme.
    """

    spark: SparkSession

    def read_bytes(self, path: str) -> bytes:
        """Read the whole file."""
        with _as_os_errors(path):
            stream = self._file_system(path).open(self._path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        with _as_os_errors(path):
            return bool(self._file_system(path).exists(self._path(path)))

    def sync(self, path: str) -> None:
        """Do nothing: a file closed on such a system outlives a crash of the client."""

    def overwrite(self, path: str, data: bytes) -> None:
        """Write a temporary file in the same folder, and rename it."""
        with _as_os_errors(path):
            temporary = self._write_temporary(path, data)
            try:
                self._rename(temporary, path, "OVERWRITE")
            except Py4JJavaError:
                self._delete_temporary(temporary, path)
                raise

    def create_if_absent(self, path: str, data: bytes) -> bool:
        """Write a temporary file in the same folder, and rename it unless the file exists."""
        with _as_os_errors(path):
            temporary = self._write_temporary(path, data)
            try:
                self._rename(temporary, path, "NONE")
            except Py4JJavaError as error:
                self._delete_temporary(temporary, path)
                if _exception_name(error) == "FileAlreadyExistsException":
                    return False
                raise
        return True

    def list_names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        with contextlib.suppress(FileNotFoundError), _as_os_errors(folder):
            statuses = self._file_system(folder).listStatus(self._path(folder))
            return [str(status.getPath().getName()) for status in statuses if status.isFile()]
        return []

    def delete(self, path: str) -> None:
        """Delete a file."""
        with _as_os_errors(path):
            self._file_system(path).delete(self._path(path), False)

    def _write_temporary(self, path: str, data: bytes) -> Any:
        """Write a temporary file in the folder of a path, and return its own path."""
        folder, _, name = path.rpartition("/")
        temporary = self._path(f"{folder}/.{name}.{uuid.uuid4()}.tmp")
        stream = self._file_system(path).create(temporary)
        try:
            stream.write(data)
            stream.hsync()
        finally:
            stream.close()
        return temporary

    def _delete_temporary(self, temporary: Any, path: str) -> None:
        """Delete what a failed rename leaves; the rename's error is the one to report."""
        with contextlib.suppress(Py4JJavaError):
            self._file_system(path).delete(temporary, False)

    def _rename(self, temporary: Any, path: str, option_name: str) -> None:
        rename = getattr(self._java.org.apache.hadoop.fs, "Options$Rename")
        options = java_array(self.spark, rename, [getattr(rename, option_name)])
        target_path = self._path(path)
        context = self._java.org.apache.hadoop.fs.FileContext
        context.getFileContext(target_path.toUri(), self._configuration).rename(
            temporary, target_path, options
        )

    @property
    def _java(self) -> Any:
        return jvm(self.spark)

    @property
    def _configuration(self) -> Any:
        return java_context(self.spark).hadoopConfiguration()

    def _path(self, path: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(path)

    def _file_system(self, path: str) -> Any:
        return self._path(path).getFileSystem(self._configuration)


def _exception_name(error: Py4JJavaError) -> str:
    """Return the class of Java's error, without its package."""
    return str(error.java_exception.getClass().getSimpleName())


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    """Raise Java's error as an `OSError`.

    Raises:
        OSError: Java raised an error; the `OSError` names the path.
    """
    try:
        yield
    except Py4JJavaError as error:
        exception_name = _exception_name(error)
        if exception_name == "FileNotFoundException":
            raise FileNotFoundError(errno.ENOENT, "there is no such file", path) from None
        error_text = (
            f"{exception_name}: {first_line(Exception(error.java_exception.getMessage() or ''))}"
        )
        failure = OSError(errno.EIO, error_text, path)
        failure.add_note(
            "check that Spark has the file system's jars (spark.jars, spark.jars.packages) and "
            "settings (spark.hadoop.…)"
        )
        raise failure from None
