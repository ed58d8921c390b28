"""Errors that Spark wraps come out in their own words."""

from __future__ import annotations

import traceback

import pytest

from stream_app.epochs.task_errors import first_line, readable_error
from stream_app.errors import (
    BadRecordsError,
    CheckpointError,
    SourceError,
    StorageError,
    StreamAppError,
    UsageError,
    WorkerLostError,
)

JAVA = (
    "\n\n\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException"
    "(PythonRunner.scala:645)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
)


def wrapped(error: Exception) -> RuntimeError:
    """Return the error as the driver gets it: the task's trace inside a text of Spark's."""
    try:
        try:
            raise SourceError("an earlier one", where="elsewhere", fix="nothing")
        except SourceError as cause:
            raise error from cause
    except Exception as raised:
        trace = "".join(traceback.format_exception(raised))
    head = "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n"
    return RuntimeError(f"Job aborted due to stage failure:{head}{trace}{JAVA}Driver stacktrace:")


@pytest.mark.parametrize(
    "error",
    [
        SourceError("truncated", where="topic t, partition 0", fix="set an option"),
        BadRecordsError("2 records: too many", where="here; there"),
        CheckpointError("in\ntwo lines", fix="do this"),
        StreamAppError("alone"),
        StorageError("", where="/x"),
    ],
    ids=lambda error: error.problem or "empty",
)
def test_an_error_of_a_task_is_rebuilt(error: StreamAppError) -> None:
    explained = readable_error(wrapped(error))
    assert type(explained) is type(error)
    assert str(explained) == str(error)


@pytest.mark.parametrize(
    "message",
    [
        "org.apache.spark.SparkException: EOFException occurred while reading the port number from "
        "stream_app.spark.jobs.worker_daemon's stdout and terminated with code: 1..",
        'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file',
        'java.io.IOException: Cannot run program "python3": Exec failed, error: 13 (Permission)',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than driver: 3.11.",
    ],
)
def test_a_python_without_the_packages_is_reported(message: str) -> None:
    explained = readable_error(RuntimeError(f"Job aborted due to stage failure: {message}{JAVA}"))
    assert isinstance(explained, UsageError)
    assert "spark.archives" in explained.where
    killed = "from stream_app.spark.jobs.worker_daemon's stdout and terminated with code: 137."
    error = RuntimeError(f"EOFException occurred while reading the port number {killed}{JAVA}")
    assert readable_error(error) is error


@pytest.mark.parametrize(
    "message",
    [
        'Cannot run program "python3": error=12, Cannot allocate memory',
        'Cannot run program "python3": Exec failed, error: 24 (Too many open files)',
        'Cannot run program "python3": error=11, Resource temporarily unavailable',
    ],
)
def test_a_process_that_cannot_be_made_now_is_no_wrong_setting(message: str) -> None:
    error = RuntimeError(f"Job aborted due to stage failure: java.io.IOException: {message}{JAVA}")
    assert readable_error(error) is error


def test_the_driver_keeps_errors_of_others_as_they_are() -> None:
    error = wrapped(AssertionError("a mistake"))
    # The cause that was handled on the way is not the failure.
    assert readable_error(error) is error
    assert str(readable_error(RuntimeError("stream_app is mentioned"))) == "stream_app is mentioned"
    assert first_line(error) == "Job aborted due to stage failure:"
    assert first_line(RuntimeError("\n two\nthree")) == "two"
    assert first_line(RuntimeError()) == "RuntimeError"


def test_more_bad_records_than_the_driver_takes() -> None:
    text = "Total size of serialized results of 9 tasks is bigger than spark.driver.maxResultSize"
    explained = readable_error(RuntimeError(text))
    assert isinstance(explained, BadRecordsError)
    assert "source.format" in explained.fix


def test_the_file_system_and_lost_records() -> None:
    full = readable_error(OSError(28, "No space left on device", "/w/data"))
    assert isinstance(full, StorageError)
    assert (full.problem, full.where) == (
        "the file system refused: No space left on device",
        "/w/data",
    )
    lost = readable_error(
        RuntimeError(
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been "
            "lost because they are not available in Kafka any more;\n"
            "Reason: Could not read records in offset [1, 2) for topic partition t-0\n with "
        )
    )
    assert isinstance(lost, SourceError)
    assert lost.where == "Could not read records in offset [1, 2) for topic partition t-0"
    assert "source.fail-on-data-loss" in lost.fix


@pytest.mark.parametrize(
    "message",
    [
        "Python worker exited unexpectedly (crashed). Consider setting 'spark.sql.execution…'",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
        "Container killed by YARN for exceeding memory limits.",
        "java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java)"
        "\n\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorker)",
    ],
)
def test_a_killed_worker_is_reported_in_a_sentence(message: str) -> None:
    text = f"Job aborted due to stage failure: Task 0 in stage 9.0 failed 4 times{JAVA}\n{message}"
    explained = readable_error(RuntimeError(text))
    assert type(explained) is WorkerLostError
    assert message.splitlines()[0].split(" (crashed)")[0] in str(explained)
    assert "start the job again, it continues where it was" in explained.fix
    assert len(explained.problem.splitlines()) == 1
