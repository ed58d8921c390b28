"""Makes Spark's errors readable: stream_app's own errors keep their text, from any process.

An error of a task reaches the driver as text inside an error of Spark's. An error of the source is
inside an error of the query. This module extracts their words. An error of another form stays
whole, with its trace.
"""

from __future__ import annotations

import pickle
import re

from stream_app import errors
from stream_app.errors import (
    BadRecordsError,
    CommitConflictError,
    StreamAppError,
    UsageError,
    WorkerLostError,
    WrongSourceError,
)
from stream_app.table.storage_errors import storage_error

_OWN_ERROR = re.compile(r"^stream_app\.errors\.(\w+): (.*)$")
_WHERE, _FIX = "  where: ", "  to fix: "
_CONCURRENT = re.compile("CONCURRENT_STREAM_LOG_UPDATE|Multiple streaming (queries|jobs)")
_DATA_LOSS = re.compile(r"may have been lost|missed due to data loss|KAFKA_DATA_LOSS")
_WORKER_LOST = re.compile(
    r"Python worker exited unexpectedly|ExecutorLostFailure \(.*"
    # The worker was killed at its start: there is only the end of its output.
    r"|java\.io\.EOFException(?=(?:\s+at [^\n]+)?\s+at org\.apache\.spark\.api\.python\.Python)"
)
_NO_PYTHON = re.compile(
    # Code 1 is an import that fails; a process that the system kills has another.
    r"EOFException occurred while reading the port number from \S+ stdout and terminated with "
    # These mean no such file, or no permission; other errors, such as too little memory, pass.
    r"code: 1\b|Cannot run program [^\n]{0,150}?error[=:] ?(?:2|13)\b[^\n]{0,60}"
    r"|\[PYTHON_VERSION_MISMATCH\][^\n]{0,200}"
)
_REASON = re.compile(r"^(?:\s*Reason: |org.*Exception: )?(.*(?:offset|[Pp]artition).*)$", re.M)


def readable_error(error: BaseException) -> BaseException:
    """Return the error that Spark has wrapped in `error`, or `error` itself if it is unknown."""
    if isinstance(error, StreamAppError):
        return error
    if isinstance(error, OSError):
        return storage_error(error)
    text = str(error)
    own_error = _own_error(text)
    if own_error is not None:
        return own_error
    if _CONCURRENT.search(text):
        return CommitConflictError(
            "another process works with the same checkpoint",
            where="stream.checkpoint",
            fix="run one job for each checkpoint; if the other one is gone, start this again",
        )
    if worker_error := _worker_error(text):
        return worker_error
    if "spark.driver.maxResultSize" in text:
        return BadRecordsError(
            "the bad records of one epoch exceed the driver's limit",
            where="source.format, source.topics",
            fix="check that source.format is the format of these topics. If they really have so "
            "many bad records: set source.max-offsets-per-trigger, stream.max-bad-records, or "
            "raise spark.driver.maxResultSize",
        )
    if _DATA_LOSS.search(text):
        reason = _REASON.search(text)
        return WrongSourceError(
            "records were deleted from the topic before they were read",
            where=reason[1].strip().rstrip(".") if reason else "",
            fix="the job was down for longer than the topic's retention. Their changes are lost: "
            "begin with a new table and checkpoint, or set source.fail-on-data-loss = false to "
            "continue with the rest",
        )
    return error


def _worker_error(text: str) -> StreamAppError | None:
    """Return an error that says how a task's Python workers ended; None if they did not end."""
    if lost_worker := _WORKER_LOST.search(text):
        return WorkerLostError(
            "a worker of Spark died in the middle of its task, as often as the task was tried: "
            + lost_worker[0][:300],
            where="on the machines of spark.master",
            fix="the system kills processes that take too much memory (see dmesg, or the "
            "cluster's log): "
            "lower write-buffer-size, raise spark.executor.memoryOverhead or run fewer cores; "
            "then start the job again, it continues where it was",
        )
    if refused_python := _NO_PYTHON.search(text):
        return UsageError(
            "the workers of Spark cannot run stream_app with their Python: " + refused_python[0],
            where="spark.pyspark.python (or PYSPARK_PYTHON), spark.archives",
            fix="install stream_app and its packages on each machine, or send the environment as "
            "an archive (docs/operate/clusters.md); the executors' stderr names what is missing",
        )
    return None


def first_line(error: BaseException) -> str:
    """Return an error's message as one short line."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


def failure_bytes(error: Exception) -> bytes:
    """Encode the error of one table, which goes to the driver beside other tables' results."""
    failure = readable_error(error)
    if not isinstance(failure, StreamAppError):
        failure = StreamAppError(f"{type(error).__name__}: {first_line(error)}")
    return pickle.dumps(failure)


def failure_of(payload: bytes) -> StreamAppError:
    """Decode an error of `failure_bytes`; only this job's own tasks make such blocks."""
    error = pickle.loads(payload)
    assert isinstance(error, StreamAppError)
    return error


def _own_error(text: str) -> StreamAppError | None:
    """Return the error at the end of the last Python trace; None without one."""
    lines = text.splitlines()
    for line_index in reversed(range(len(lines))):
        if lines[line_index].startswith("Traceback (most recent call last)"):
            return None
        match = _OWN_ERROR.match(lines[line_index])
        error_class = getattr(errors, match[1], None) if match else None
        if match and isinstance(error_class, type) and issubclass(error_class, StreamAppError):
            return _parse_error(error_class, match[2], lines[line_index + 1 :])
    return None


def _parse_error(
    error_class: type[StreamAppError], problem: str, following_lines: list[str]
) -> StreamAppError:
    """Make the error from the lines that `StreamAppError.__str__` has written."""
    where = fix = ""
    for line in following_lines:
        if line.startswith(_WHERE):
            where = line.removeprefix(_WHERE)
        elif line.startswith(_FIX):
            return error_class(problem, where=where, fix=line.removeprefix(_FIX))
        elif where or not line.strip() or line.startswith("\tat "):
            break
        else:
            problem += "\n" + line
    return error_class(problem, where=where, fix=fix)
