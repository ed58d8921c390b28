"""Opens the job's own folders, its checkpoint and its quarantine, by their location.

Spark keeps its part of a checkpoint through Hadoop's file systems; ours is beside it. On local
disks, S3 and HDFS the job uses the `FileIO` of tables. Its promises are tested. It needs no JVM, so
the job detects a wrong checkpoint before it starts one. Its writes survive a crash of the machine,
which Hadoop's local file system does not promise. For any other scheme `spark.hadoop_files`
reaches whatever Spark reaches.

Source: Hadoop's S3A settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from stream_app.app.config.tables_of_job import TablesOfJob
from stream_app.app.launch.jars import installed_spark_version
from stream_app.errors import StorageError, UsageError
from stream_app.fileio.atomic_create import probe_atomic_create
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.file_io_registry import (
    absolute_location,
    can_open,
    file_io_of,
    is_local,
    is_on_hdfs,
    is_on_s3,
)
from stream_app.fileio.hdfs.hdfs_file_io import HDFS_OPTION_PREFIX
from stream_app.fileio.local_file_io import local_path
from stream_app.fileio.reference import NotThereError
from stream_app.fileio.s3.s3_options import s3_options
from stream_app.spark.job_folder import Folder, FolderFiles
from stream_app.table.storage_errors import storage_errors

_FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_HADOOP, _S3A = "spark.hadoop.", "spark.hadoop.fs.s3a."
_ENCRYPTIONS = {"AES256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}


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
        options: of the section ``[file-system]``.
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
    """A folder's location in Spark's form.

    A bare path would be one of the cluster's own file system, and Hadoop knows S3 as ``s3a``.
    """
    if is_local(location):
        return f"file://{location}"
    if is_on_s3(location):
        return f"s3a://{location.partition('://')[2]}"
    return location


def hadoop_settings(
    location: str, options: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Spark's settings for a folder that correspond to the options of file systems.

    Args:
        options: of the section ``[file-system]``.

    Raises:
        UsageError: a wrong option of S3.
        StorageError: the file or profile for the keys of S3 has none.
    """
    if is_on_hdfs(location):
        return {
            _HADOOP + key.removeprefix(HDFS_OPTION_PREFIX): value
            for key, value in options.items()
            if key.startswith(HDFS_OPTION_PREFIX)
        }
    if is_on_s3(location):
        return _s3a_settings(location, options, environ)
    return {_FILE_MANAGER: _file_manager(installed_spark_version())} if is_local(location) else {}


def _file_manager(version: str) -> str:
    """The class with which Spark writes a local checkpoint without a process for each file.

    Spark's default starts `chmod` for each file, which takes 40 ms of an epoch.
    """
    major, minor = version.split(".")[:2]
    folder = "" if (int(major), int(minor)) < (4, 1) else "checkpointing."
    return f"org.apache.spark.sql.execution.streaming.{folder}FileSystemBasedCheckpointFileManager"


def _s3a_settings(
    location: str, options: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    s3 = s3_options(options, environ, urlsplit(location).netloc)
    try:
        keys = s3.current_keys()
    except NotThereError as error:
        raise StorageError(
            f"there are no keys for the checkpoint: {error}",
            where=location,
            fix="see that the file or the profile gives them when the job starts",
        ) from None
    settings = {
        "endpoint": s3.endpoint,
        "endpoint.region": s3.region,
        "path.style.access": str(s3.uses_path_style).lower(),
        "access.key": keys.access_key if keys else None,
        "secret.key": keys.secret_key if keys else None,
        "session.token": keys.session_token if keys else None,
        "encryption.algorithm": _ENCRYPTIONS.get(s3.encryption or ""),
        "encryption.key": s3.encryption_key,
        "requester.pays.enabled": "true" if s3.requester_pays else None,
    }
    return {_S3A + name: value for name, value in settings.items() if value is not None}
