"""The job's checkpoint and quarantine on every kind of file system, by one suite.

`HadoopFiles`, which are for what Hadoop alone knows, are tried on HDFS.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from stream_app.app.opening.job_folder_access import (
    open_folder,
    spark_folder_settings,
    spark_location,
)
from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA
from stream_app.checkpoint.checkpoint_owner import claim_checkpoint, write_topics
from stream_app.checkpoint.epoch_log import LOST_FIX, EpochLog
from stream_app.checkpoint.epoch_log_writer import EpochLogWriter
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.errors import CheckpointError
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.spark.driver.hadoop_files import HadoopFiles
from stream_app.table.file_store_table import FileStoreTable
from tests.support.servers.hdfs_cluster import HdfsCluster
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.small_table import small_table

NAME = "what a folder/can be%20called"


def no_session() -> NoReturn:
    raise AssertionError("it takes no JVM")


@pytest.fixture(
    params=[
        "path",
        "file:",
        "s3",
        "s3a",
        pytest.param("hdfs", marks=pytest.mark.java),
        pytest.param("hdfs by Hadoop", marks=[pytest.mark.java, pytest.mark.spark]),
    ]
)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> JobFolder:
    """Return a folder that does not exist yet."""
    if request.param == "path":
        return open_folder(f"{tmp_path}/{NAME}", {}, no_session)
    if request.param == "file:":
        return open_folder((tmp_path / NAME).as_uri(), {}, no_session)
    if request.param.startswith("s3"):
        s3: S3Server = request.getfixturevalue("s3")
        location = f"{request.param}://{s3.new_bucket()}/{NAME}"
        return open_folder(location, s3.options, no_session)
    hdfs: HdfsCluster = request.getfixturevalue("hdfs")
    location = f"{hdfs.new_folder()}/{NAME}"
    if request.param == "hdfs":
        return open_folder(location, {}, no_session)
    return JobFolder(location, HadoopFiles(request.getfixturevalue("spark")))


@pytest.fixture
def table(tmp_path: Path) -> FileStoreTable:
    return small_table(tmp_path / "db.db" / "t", "k INT", "k").table


def test_files_are_whole_or_not_there(folder: JobFolder) -> None:
    path, file_io = folder.path("sub/file"), folder.file_io
    assert not file_io.exists(path)
    with pytest.raises(FileNotFoundError):
        file_io.read_bytes(path)
    for data in (b"first", "zwölf\n".encode() * 1000, b""):
        file_io.overwrite(path, data)
        assert file_io.read_bytes(path) == data
    assert file_io.exists(path)
    assert file_io.exists(folder.path("sub"))


def owned_state(folder: JobFolder, table: FileStoreTable) -> JobStateFile:
    """Return the state that a job of the table stores when it starts."""
    file = JobStateFile(folder)
    claim_checkpoint(file, table.location, table.identity())
    return file


def test_a_checkpoint_remembers_its_table_and_topics(
    folder: JobFolder, table: FileStoreTable
) -> None:
    write_topics(owned_state(folder, table), {"orders": "id-1"})
    again = owned_state(folder, table)
    assert again.state.topic_ids == {"orders": "id-1"}
    write_topics(again, {"orders": "id-2", "customers": "id-3"})
    assert owned_state(folder, table).state.topic_ids == {"orders": "id-1", "customers": "id-3"}


def test_a_checkpoint_of_another_table_is_refused(
    folder: JobFolder, table: FileStoreTable, tmp_path: Path
) -> None:
    owned_state(folder, table)
    other_table = small_table(tmp_path / "db.db" / "other", "k INT, v INT", "k").table
    with pytest.raises(CheckpointError, match="belongs to the table") as raised:
        owned_state(folder, other_table)
    assert raised.value.where == folder.location


def test_a_checkpoint_of_another_application_is_refused(
    folder: JobFolder, table: FileStoreTable
) -> None:
    folder.file_io.overwrite(folder.path("offsets/0"), b"v1")
    with pytest.raises(CheckpointError, match="by another application"):
        owned_state(folder, table)


def test_a_damaged_checkpoint_is_reported(folder: JobFolder, table: FileStoreTable) -> None:
    folder.file_io.overwrite(folder.path("job_state.json"), b'{"table": ')
    with pytest.raises(CheckpointError, match="is damaged") as raised:
        owned_state(folder, table)
    assert raised.value.where == folder.location


def test_the_log_of_epochs_reads_what_spark_noted(folder: JobFolder) -> None:
    folder.file_io.overwrite(folder.path("metadata"), b'{"id":"one"}')
    folder.file_io.overwrite(folder.path("offsets/7"), b'v1\n{"conf":{}}\n{"t":{"0":3}}')
    epochs = EpochLog(folder, can_reread=True)
    assert epochs.query_id() == "one"
    assert epochs.source_end(7) == '{"t":{"0":3}}'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("offsets/0", 'v1\n{}\n{"t":{"0":'),
        ("offsets/0", "v1\n{}"),
        ("offsets/0", "v1\n{}\n[]"),
        ("sources/0/0", "v1"),
    ],
)
def test_damaged_offsets_are_an_error_with_a_remedy(
    folder: JobFolder, name: str, text: str
) -> None:
    folder.file_io.overwrite(folder.path(name), text.encode())
    epochs = EpochLog(folder, can_reread=True)
    with pytest.raises(CheckpointError, match=f"{name} of the checkpoint has no offsets") as raised:
        epochs.end_offsets(0) if name == "offsets/0" else epochs.start_offsets(0)
    assert raised.value.where == str(folder)
    assert raised.value.fix == LOST_FIX


def test_the_log_of_epochs_is_written_and_read(folder: JobFolder) -> None:
    writer, epochs = EpochLogWriter(folder, epochs_kept=2), EpochLog(folder, can_reread=True)
    assert writer.newest_epoch() is None
    assert not writer.has_first_offsets()
    writer.begin_query()
    query = epochs.query_id()
    writer.begin_query()
    assert epochs.query_id() == query
    for first in (3, 4):  # the first one stays
        writer.write_first_offsets({"t": {"0": first}})
    assert epochs.start_offsets(0) == {"t": {"0": 3}}
    for epoch in range(4):
        writer.begin(epoch, {"t": {"10": 7, "0": epoch}}, 5)
        assert not epochs.is_done(epoch)
        writer.finish(epoch)
        assert epochs.is_done(epoch)
    assert writer.newest_epoch() == 3
    assert epochs.source_end(3) == '{"t":{"0":3,"10":7}}'
    assert sorted(folder.file_io.list_names(folder.path("offsets"))) == ["2", "3"]
    assert sorted(folder.file_io.list_names(folder.path("commits"))) == ["2", "3"]
    writer.begin(3, {"t": {"10": 7, "0": 3}}, 5)  # as after an answer that was lost
    with pytest.raises(CheckpointError, match="another job has begun epoch 3"):
        writer.begin(3, {"t": {"0": 3}}, 6)


def test_the_log_of_an_epoch_is_few_requests(s3: S3Server) -> None:
    folder = open_folder(f"s3://{s3.new_bucket()}/c", s3.options, no_session)
    writer, epochs = EpochLogWriter(folder, epochs_kept=2), EpochLog(folder, can_reread=True)
    for epoch in range(4):
        with s3.counted() as requests:
            writer.begin(epoch, {"t": {"0": epoch}}, 5)
            epochs.source_end(epoch)
            writer.finish(epoch)
    assert sorted(method for method, _ in requests) == ["GET", "POST", "POST", "PUT", "PUT"]


def test_the_quarantine_keeps_a_record_once_and_what_was_there(folder: JobFolder) -> None:
    writer = QuarantineWriter(folder, None)
    for offset in (1, 1, 2, 2, 3):
        row = {"topic": "t", "partition": 0, "offset": offset, "reason": "why"}
        writer.write(0, pa.Table.from_pylist([row], schema=BAD_RECORD_SCHEMA))
    names = ("epoch-0.jsonl", "epoch-0.old-1.jsonl", "epoch-0.old-2.jsonl")
    texts = [folder.file_io.read_bytes(folder.path(name)).decode() for name in names]
    assert [json.loads(text)["offset"] for text in texts] == [3, 1, 2]
    assert not folder.file_io.exists(folder.path("epoch-0.old-3.jsonl"))


def test_a_run_that_was_killed_between_keeping_and_writing(folder: JobFolder) -> None:
    """The next one keeps what was there no second time."""
    folder.file_io.overwrite(folder.path("epoch-0.jsonl"), b"old\n")
    folder.file_io.overwrite(folder.path("epoch-0.old-1.jsonl"), b"old\n")
    row = {"topic": "t", "partition": 0, "offset": 1, "reason": "why"}
    QuarantineWriter(folder, None).write(0, pa.Table.from_pylist([row], schema=BAD_RECORD_SCHEMA))
    assert not folder.file_io.exists(folder.path("epoch-0.old-2.jsonl"))
    assert folder.file_io.read_bytes(folder.path("epoch-0.jsonl")).startswith(b'{"topic": "t"')


@pytest.mark.spark
def test_spark_opens_folders_of_schemes_that_only_hadoop_knows(spark: SparkSession) -> None:
    """An error about a scheme that Hadoop does not know either says what is missing."""
    folder = open_folder("oci://lake/checkpoint/", {}, lambda: HadoopFiles(spark))
    with pytest.raises(OSError, match='No FileSystem for scheme "oci"') as raised:
        folder.file_io.exists(folder.path("offsets"))
    assert folder.location == "oci://lake/checkpoint"
    assert "spark.jars" in raised.value.__notes__[0]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/a b/c%20d", "file:///a b/c%20d"),
        ("s3://lake/c", "s3a://lake/c"),
        ("s3a://lake/c", "s3a://lake/c"),
        ("hdfs://nn:8020/c", "hdfs://nn:8020/c"),
        ("gs://lake/c", "gs://lake/c"),
    ],
)
def test_a_location_has_the_form_that_spark_takes(location: str, expected: str) -> None:
    assert spark_location(location) == expected


def test_spark_gets_the_options_of_the_file_system() -> None:
    options = {
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.access-key": ACCESS_KEY,
        "s3.secret-key": SECRET_KEY,
        "hadoop.dfs.nameservices": "lake",
    }
    assert spark_folder_settings("s3://lake/c", options, {"AWS_REGION": "eu-west-1"}) == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
    }
    assert spark_folder_settings("hdfs://lake/c", options, {}) == {
        "spark.hadoop.dfs.nameservices": "lake"
    }
    [(key, manager)] = spark_folder_settings("/c", options, {}).items()
    assert key == "spark.sql.streaming.checkpointFileManagerClass"
    assert manager.startswith("org.apache.spark.sql.execution.streaming.")
    assert spark_folder_settings("gs://lake/c", options, {}) == {}
