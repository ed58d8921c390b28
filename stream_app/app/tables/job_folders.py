"""Opens the job's own folders, its checkpoint and its quarantine, by their location.

Spark keeps its part of a checkpoint through Hadoop's file systems; ours is beside it. On local
disks, S3 and HDFS the job uses the `FileIO` of tables. Its promises are tested. It needs no JVM, so
the job detects a wrong checkpoint before it starts one. Its writes survive a crash of the machine,
which Hadoop's local file system does not promise. For any other scheme `spark.hadoop_files`
reaches whatever Spark reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from stream_app.app.config.job_tables.tables_of_job import TablesOfJob
from stream_app.app.launch.jars import installed_spark_version
from stream_app.errors import UsageError
from stream_app.fileio.atomic_create import probe_atomic_create
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.file_io_registry import (
    absolute_location,
    can_open,
    file_io_of,
    is_local,
    store_of,
)
from stream_app.fileio.local_file_io import local_path
from stream_app.spark.job_folder import Folder, FolderFiles
from stream_app.table.storage_errors import storage_errors

_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def not_begun(checkpoint: str) -> str:
    """The message about a missing checkpoint: perhaps the command runs elsewhere."""
    where = absolute_location(checkpoint)
    said = f"no job has begun with the checkpoint {where}"
    if where == checkpoint.rstrip("/"):
        return said
    return f"{said}; {checkpoint!r} is relative: is this the folder where the job runs?"


def check_writable(*locations: str) -> None:
    """Check that files can be made in local folders, or above those that are not there yet.

    Other stores are checked when a table is opened for writing.

    Raises:
        StorageError: the disk is full, or cannot be written.
        NoAccessError: no right; or of two writers of a file both win.
    """
    for location in filter(None, locations):
        if not is_local(location):
            continue
        with storage_errors(local_path(location)):
            probe_local(location)


def probe_local(location: str) -> tuple[FileIO, str]:
    """Create a file twice in a folder or its nearest existing parent; creates no folder.

    Returns:
        What reads and writes the file, and the folder that was tried.

    Raises:
        OSError: no file can be made there.
        NoAccessError: both succeed.
    """
    folder, files = file_io_of(location)
    there = Path(folder)
    while not there.exists():
        there = there.parent
    probe_atomic_create(files, str(there), "a link to a name that is taken succeeds")
    return files, str(there)


def open_folder(
    location: str, options: Mapping[str, str], hadoop_files: Callable[[], FolderFiles]
) -> Folder:
    """The folder, which need not exist yet.

    Args:
        options: the options of the section ``[file-system]``.
        hadoop_files: called only if Hadoop alone knows the file system, because it starts Spark.

    Raises:
        UsageError: a wrong location or option.
        StorageError: the client of the file system is not usable here.
    """
    if can_open(location):
        return Folder(*file_io_of(location, options))
    return Folder(location.rstrip("/"), hadoop_files())


def checkpoint_of(tables: TablesOfJob, *, fix: str) -> Folder:
    """The checkpoint of a job, for those that start no Spark.

    Args:
        fix: what to do where only Spark reaches it.

    Raises:
        UsageError: only Spark reaches it.
    """
    if not can_open(tables.checkpoint):
        raise UsageError(
            "the checkpoint lies on a file system that only Spark reaches",
            where="stream.checkpoint",
            fix=fix,
        )
    return Folder(*file_io_of(tables.checkpoint, tables.file_system))


def make_local(location: str) -> None:
    """Make a folder on a local disk at once; elsewhere the first file makes it.

    Otherwise a quarantine that cannot be made would fail at the first bad record.

    Raises:
        StorageError: it cannot be made, or is a file.
    """
    if location and is_local(location):
        with storage_errors(location):
            Path(local_path(location)).mkdir(parents=True, exist_ok=True)


def spark_location(location: str) -> str:
    """A folder's location in Spark's form."""
    store = store_of(location)
    return store.spark.location(location) if store else location


def hadoop_settings(
    location: str, options: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Spark's settings for a folder that correspond to the options of file systems.

    Args:
        options: the options of the section ``[file-system]``.

    Raises:
        UsageError: a wrong option of S3.
        StorageError: the file or profile for the keys of S3 has none.
    """
    if is_local(location):
        return {_FILE_MANAGER: _file_manager(installed_spark_version())}
    store = store_of(location)
    return store.spark.settings(location, options, environ) if store else {}


def _file_manager(version: str) -> str:
    """The class with which Spark writes a local checkpoint without a process for each file.

    Spark's default starts `chmod` for each file, which takes 40 ms of an epoch.
    """
    major, minor = version.split(".")[:2]
    folder = "" if (int(major), int(minor)) < (4, 1) else "checkpointing."
    return f"org.apache.spark.sql.execution.streaming.{folder}FileSystemBasedCheckpointFileManager"
