"""Every error that stream_app raises on purpose.

An error has a problem, its place and the remedy. The tree::

    StreamAppError              1
    ├── UsageError              2  wrong command line, configuration or option
    │   └── SparkOnlyError      2  only Spark reaches the folder, and the process starts no Spark
    ├── SchemaMismatchError     2  the table and the configuration do not fit together
    ├── TableNotFoundError      2  no table at this path
    ├── UnsupportedTableError   2  the table uses a Paimon feature that stream_app lacks
    ├── CorruptFileError        2  bytes on disk differ from the metadata that describes them
    ├── StorageError            1  the file system refused: disk full, gone
    │   └── NoAccessError       2  no permission, or an impossible path
    ├── SourceError             1  Kafka cannot be reached
    │   └── WrongSourceError    2  a topic is missing, recreated, or has unusable records
    │       └── ExpectationError 2 a record breaks an expectation that ends the job
    ├── CheckpointError         2  the checkpoint does not belong to this table or its version
    │   └── LateCommitError     1  a commit was held up until its snapshot's number was free again
    ├── BadRecordsError         2  more bad records than `stream.max-bad-records`
    │   └── NoGoodRecordError   1  all records of a run that has ended are bad
    ├── RecordTooLargeError     2  one record is larger than the write buffer
    ├── MergeError              2  the merge engine cannot take a row, such as a delete
    ├── TablesHeldError         1  a run has ended, and an error holds some of its tables back
    ├── WorkerLostError         1  a worker of Spark died, again and again, in its task
    ├── JvmEndedError           1  the driver's JVM died
    ├── CompactionError         1  a bucket cannot be compacted
    │   └── CompactionWaitError 1  a bucket's compaction is unfinished, and its table waits
    ├── StoppedError            1  the job was asked to end while it waited
    └── CommitError             1  a snapshot could not be published
        └── CommitConflictError 1  another writer changed what this commit builds on
            └── OutdatedRowsError 1 the rows were routed by another number of buckets

The number is the exit code. 2: only an operator can remove the cause, and every start fails until
then. So a supervisor must not start the job again. 1: the cause is outside (a broker, a disk, a
race, a killed worker) and may pass. The next start continues where the job was.

Sources: none; this is stream_app's own vocabulary. Imports nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar, Self

FAILED = 1
OPERATOR_NEEDED = 2
NOT_COMPARED = 3
"""`check` found nothing wrong, and could not compare everything with the source."""
RESTORE_FIX = "restore the file from a backup, or roll the table back to a tag"
"""The remedy of a damaged file of a table."""


class StreamAppError(Exception):
    """The root of every error that the project raises on purpose.

    Args:
        problem: one sentence about the problem, with the offending value.
        where: file, option, topic/partition/offset, bucket …; empty if `problem` names it.
        fix: the remedy.

    Attributes:
        exit_code: the exit code of the process that ends with it.
    """

    exit_code: ClassVar[int] = FAILED

    def __init_subclass__(cls, *, exit_code: int | None = None) -> None:
        if exit_code is not None:
            cls.exit_code = exit_code

    def __init__(self, problem: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where
        self.fix = fix

    def locate(self, where: str) -> None:
        """Add the place to the error, unless it has one."""
        self.where = self.where or where

    def __str__(self) -> str:
        lines = [self.problem]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  to fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[partial[StreamAppError], tuple[()]]:
        # Spark pickles errors between processes, and the inherited method loses keyword arguments.
        return partial(type(self), self.problem, where=self.where, fix=self.fix), ()


class UsageError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """Wrong use: command line, configuration file or option."""


class SparkOnlyError(UsageError):
    """A folder is on a file system that only Spark reaches, and the process starts no Spark."""


class SchemaMismatchError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """The configured columns or options and the table's do not fit together."""


class UnsupportedTableError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """The table has a feature of Paimon that stream_app lacks, so its writes would corrupt it."""


class TableNotFoundError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """There is no Paimon table at the given path."""


class CorruptFileError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """A file of the table differs from the metadata that names it."""


class StorageError(StreamAppError):
    """The file system refused to read or write."""


class NoAccessError(StorageError, exit_code=OPERATOR_NEEDED):
    """The job has no permission for a path, or the path is impossible, such as a too long name."""


class SourceError(StreamAppError):
    """The source cannot be read: its broker does not answer."""


class WrongSourceError(SourceError, exit_code=OPERATOR_NEEDED):
    """The topics, their records or the login do not match the job's configuration or checkpoint."""


class ExpectationError(WrongSourceError):
    """A record breaks an expectation whose action is ``fail``: the whole job ends."""


class CheckpointError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """The checkpoint and the table do not belong together."""


class LateCommitError(CheckpointError, exit_code=FAILED):
    """A commit was delayed until other writers had used its snapshot number and freed it again."""


class BadRecordsError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """More records could not be stored than `stream.max-bad-records` allows."""


class NoGoodRecordError(BadRecordsError, exit_code=FAILED):
    """A run has ended, and every record that it read is in the quarantine."""


class RecordTooLargeError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """One record is larger than the whole write buffer."""


class MergeError(StreamAppError, exit_code=OPERATOR_NEEDED):
    """The table's merge engine cannot merge a row, such as a delete or a retracted value."""


class TablesHeldError(StreamAppError):
    """A run has ended with some tables held back; the other tables have all rows."""


class WorkerLostError(StreamAppError):
    """A Spark worker died in its task at every attempt."""


class JvmEndedError(StreamAppError):
    """The driver's JVM was killed, or its memory ran out."""


class CompactionError(StreamAppError):
    """A bucket cannot be compacted, so its writes wait at the stop trigger."""


class CompactionWaitError(CompactionError):
    """A bucket has too many sorted runs; its compaction is unfinished."""


class StoppedError(StreamAppError):
    """The job was asked to end while it waited: nothing is wrong."""


class CommitError(StreamAppError):
    """A snapshot could not be published."""


class CommitConflictError(CommitError):
    """Another writer changed what this commit builds on.

    Attributes:
        files: names of the commit's files that conflict; empty: the whole commit does. Pickling
            drops them.
    """

    files: frozenset[str] = frozenset()

    def about_files(self, files: Iterable[str]) -> Self:
        """Return the same error with the names of the conflicting files."""
        self.files = frozenset(files)
        return self


class OutdatedRowsError(CommitConflictError):
    """Rows were routed to buckets that their partition no longer has, and must be written again."""
