"""Errors that Spark wraps keep their own messages."""

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


def wrapped_error(error: Exception) -> RuntimeError:
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


def failed_stage(message: str) -> RuntimeError:
    """Return the error of Spark about a stage that has failed without an error of the product."""
    return RuntimeError(f"Job aborted due to stage failure: {message}{JAVA}")


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
    rebuilt_error = readable_error(wrapped_error(error))
    assert type(rebuilt_error) is type(error)
    assert str(rebuilt_error) == str(error)


@pytest.mark.parametrize(
    "message",
    [
        "org.apache.spark.SparkException: EOFException occurred while reading the port number from "
        "stream_app.spark.jobs.worker_daemon's stdout and terminated with code: 1..",
        'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file',
        'java.io.IOException: Cannot run program "python3": Exec failed, error: 13 (Permission)',
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than driver: 3.11.",
    ],
    ids=["no-packages", "no-file", "no-permission", "other-version"],
)
def test_a_python_without_the_packages_is_reported(message: str) -> None:
    error = readable_error(failed_stage(message))
    assert isinstance(error, UsageError)
    assert "spark.archives" in error.where


@pytest.mark.parametrize(
    "message",
    [
        'java.io.IOException: Cannot run program "python3": error=12, Cannot allocate memory',
        'java.io.IOException: Cannot run program "python3": Exec failed, error: 24 (Too many open '
        "files)",
        'java.io.IOException: Cannot run program "python3": error=11, Resource temporarily '
        "unavailable",
        "EOFException occurred while reading the port number from "
        "stream_app.spark.jobs.worker_daemon's stdout and terminated with code: 137.",
    ],
    ids=["memory", "open-files", "processes", "killed"],
)
def test_a_python_that_cannot_start_now_is_not_a_wrong_setting(message: str) -> None:
    error = failed_stage(message)
    assert readable_error(error) is error


@pytest.mark.parametrize(
    "error",
    [
        # Its task has handled another error on the way, which is not the failure.
        wrapped_error(AssertionError("a mistake")),
        RuntimeError("stream_app is mentioned"),
    ],
    ids=["cause", "mention"],
)
def test_the_driver_keeps_errors_of_others_as_they_are(error: RuntimeError) -> None:
    assert readable_error(error) is error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (wrapped_error(AssertionError("a mistake")), "Job aborted due to stage failure:"),
        (RuntimeError("\n two\nthree"), "two"),
        (RuntimeError(), "RuntimeError"),
    ],
    ids=["trace", "empty-line", "no-text"],
)
def test_the_first_line_of_an_error_is_its_first_with_text(error: RuntimeError, line: str) -> None:
    assert first_line(error) == line


def test_more_bad_records_than_the_driver_takes() -> None:
    text = "Total size of serialized results of 9 tasks is bigger than spark.driver.maxResultSize"
    error = readable_error(RuntimeError(text))
    assert isinstance(error, BadRecordsError)
    assert "source.format" in error.fix


def test_a_full_disk_is_an_error_of_the_storage() -> None:
    error = readable_error(OSError(28, "No space left on device", "/w/data"))
    assert isinstance(error, StorageError)
    assert error.problem == "the file system refused: No space left on device"
    assert error.where == "/w/data"


def test_records_that_kafka_has_deleted_are_an_error_of_the_source() -> None:
    error = readable_error(
        RuntimeError(
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been "
            "lost because they are not available in Kafka any more;\n"
            "Reason: Could not read records in offset [1, 2) for topic partition t-0\n with "
        )
    )
    assert isinstance(error, SourceError)
    assert error.where == "Could not read records in offset [1, 2) for topic partition t-0"
    assert "source.fail-on-data-loss" in error.fix


@pytest.mark.parametrize(
    "message",
    [
        "Python worker exited unexpectedly (crashed). Consider setting 'spark.sql.execution…'",
        "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
        "Container killed by YARN for exceeding memory limits.",
        "java.io.EOFException\n\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java)"
        "\n\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorker)",
    ],
    ids=["crashed", "container-killed", "end-of-file"],
)
def test_a_killed_worker_is_reported_in_a_sentence(message: str) -> None:
    text = f"Job aborted due to stage failure: Task 0 in stage 9.0 failed 4 times{JAVA}\n{message}"
    error = readable_error(RuntimeError(text))
    assert type(error) is WorkerLostError
    assert message.splitlines()[0].split(" (crashed)")[0] in str(error)
    assert "start the job again, it continues where it was" in error.fix
    assert len(error.problem.splitlines()) == 1
