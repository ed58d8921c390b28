"""Opens the folders of a job, its checkpoint and its quarantine, by their location.

Spark writes its part of a checkpoint through Hadoop's file systems, and the job's own part is
beside it. On local disks, S3 and HDFS the job uses the tables' `FileIO`. It needs no JVM, so the
job detects a wrong checkpoint before it starts one. Its writes survive a crash of the machine,
which Hadoop's local file system does not guarantee. For other schemes
`spark.driver.hadoop_files` uses Hadoop's clients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.launch.jars import installed_spark_version
from stream_app.checkpoint.job_folder import FolderFileIO, JobFolder
from stream_app.errors import SparkOnlyError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.local.local_file_io import local_path
from stream_app.fileio.store_probes import probe_atomic_create
from stream_app.fileio.store_registry import (
    absolute_location,
    can_open,
    file_io_of,
    is_local,
    store_of,
)
from stream_app.table.storage_errors import storage_errors

_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def not_begun_text(checkpoint: str) -> str:
    """Return the message about a missing checkpoint, with a hint for a relative path."""
    where = absolute_location(checkpoint)
    text = f"no job has begun with the checkpoint {where}"
    if where == checkpoint.rstrip("/"):
        return text
    return f"{text}; {checkpoint!r} is relative: is this the folder where the job runs?"


def check_folders_writable(*locations: str) -> None:
    """Check that files can be created in local folders, or in their nearest existing parents.

    A job checks other stores when it opens a table for writing.

    Raises:
        StorageError: the disk is full or not writable.
        NoAccessError: the user lacks permission, or creating a file twice succeeds twice.
    """
    for location in filter(None, locations):
        if not is_local(location):
            continue
        with storage_errors(local_path(location)):
            probe_local(location)


def probe_local(location: str) -> tuple[FileIO, str]:
    """Create a file twice in a folder or its nearest existing parent, without creating folders.

    Returns:
        The `FileIO` that was used, and the folder that was tried.

    Raises:
        OSError: no file can be created there.
        NoAccessError: both attempts succeed.
    """
    folder, file_io = file_io_of(location)
    existing_folder = Path(folder)
    while not existing_folder.exists():
        existing_folder = existing_folder.parent
    probe_atomic_create(file_io, str(existing_folder), "a link to a name that is taken succeeds")
    return file_io, str(existing_folder)


def open_folder(
    location: str, options: Mapping[str, str], open_hadoop_files: Callable[[], FolderFileIO]
) -> JobFolder:
    """Open a folder, which need not exist yet.

    Args:
        options: the options of the section ``[file-system]``.
        open_hadoop_files: starts Spark; called only if no `FileIO` of tables knows the location's
            scheme.

    Raises:
        UsageError: the location or an option is wrong.
        StorageError: the client library of the file system cannot be used.
    """
    if can_open(location):
        return JobFolder(*file_io_of(location, options))
    return JobFolder(location.rstrip("/"), open_hadoop_files())


def open_checkpoint(job_tables: JobTables, *, fix: str) -> JobFolder:
    """Open a job's checkpoint in a process without Spark.

    Args:
        fix: the remedy to report if only Spark can access the checkpoint.

    Raises:
        SparkOnlyError: only Spark can access the checkpoint.
        UsageError: the location or an option of its file system is wrong.
    """
    if not can_open(job_tables.checkpoint):
        raise SparkOnlyError(
            "the checkpoint is on a file system that only Spark reaches",
            where="stream.checkpoint",
            fix=fix,
        )
    return JobFolder(*file_io_of(job_tables.checkpoint, job_tables.file_system))


def create_local_folder(location: str) -> None:
    """Create a folder on a local disk; in other stores the first file creates it.

    Without this, an impossible location of the quarantine would fail only at the first bad record.

    Raises:
        StorageError: the folder cannot be created, or a file has its name.
    """
    if location and is_local(location):
        with storage_errors(location):
            Path(local_path(location)).mkdir(parents=True, exist_ok=True)


def spark_location(location: str) -> str:
    """Return a folder's location as Spark spells it."""
    store = store_of(location)
    return store.spark.location_of(location) if store else location


def spark_folder_settings(
    location: str, options: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return Spark's settings for a folder, derived from the options of its file system.

    Args:
        options: the options of the section ``[file-system]``.

    Raises:
        UsageError: an option of S3 is wrong.
        StorageError: the file or profile that should have the S3 keys lacks them.
    """
    if is_local(location):
        return {_FILE_MANAGER: _file_manager(installed_spark_version())}
    store = store_of(location)
    return store.spark.settings_of(location, options, environ) if store else {}


def _file_manager(version: str) -> str:
    """Return the class with which Spark writes a local checkpoint without starting processes.

    Spark's default class runs `chmod` for each file, which costs 40 ms per epoch.
    """
    major, minor = version.split(".")[:2]
    folder = "" if (int(major), int(minor)) < (4, 1) else "checkpointing."
    return f"org.apache.spark.sql.execution.streaming.{folder}FileSystemBasedCheckpointFileManager"
