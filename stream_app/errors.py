"""Every error that stream_app raises on purpose.

An error says what is wrong, where, and how to mend it. The tree::

    StreamAppError
    ├── UsageError              wrong command line, configuration or option     (exit code 2)
    ├── SchemaMismatchError     the table and what is configured do not fit     (exit code 2)
    ├── TableNotFoundError      no table at this path                           (exit code 2)
    ├── UnsupportedTableError   the table uses a Paimon feature that we must not touch
    ├── CorruptFileError        bytes on disk are not what the metadata promised
    ├── StorageError            the file system refused: disk full, no right, gone
    ├── SourceError             Kafka cannot be reached, a topic is missing or was made anew
    ├── CheckpointError         the checkpoint does not belong to this table, or the table went back
    │   └── LateCommitError     a commit was held up until its snapshot's number was free again
    ├── BadRecordsError         more undecodable records than `stream.max-bad-records`
    ├── RecordTooLargeError     one record is larger than the write buffer
    ├── WorkerLostError         a worker of Spark died, again and again, in the middle of its task
    ├── CompactionError         a bucket cannot be compacted
    ├── StoppedError            the job was asked to end while it waited
    └── CommitError             a snapshot could not be published
        └── CommitConflictError another writer changed what this commit builds on

Sources: none; this is stream_app's own vocabulary. Imports nothing.
"""

from __future__ import annotations

from functools import partial


class StreamAppError(Exception):
    """Root of every error that the project raises on purpose.

    Args:
        what: one sentence: what is wrong, with the offending value.
        where: file, option, topic/partition/offset, bucket …; empty when `what` says it.
        fix: what the reader of the message can do about it.
    """

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.fix:
            lines.append(f"  to fix: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[partial[StreamAppError], tuple[()]]:
        # Errors cross process borders (Spark pickles them); the inherited way forgets keywords.
        return partial(type(self), self.what, where=self.where, fix=self.fix), ()


class UsageError(StreamAppError):
    """Wrong use: command line, configuration file or option. Exit code 2."""


class SchemaMismatchError(StreamAppError):
    """The configured columns or options and the table's do not fit together. Exit code 2."""


class UnsupportedTableError(StreamAppError):
    """The table uses a feature of Paimon that a writer without it would corrupt."""


class TableNotFoundError(StreamAppError):
    """There is no Paimon table at the given path. Exit code 2."""


class CorruptFileError(StreamAppError):
    """A file of the table is not what the metadata that names it promised."""


class StorageError(StreamAppError):
    """The file system refused to read or write."""


class SourceError(StreamAppError):
    """The source cannot be read: broker, topic, or offsets that are gone."""


class CheckpointError(StreamAppError):
    """The checkpoint and the table do not belong together."""


class LateCommitError(CheckpointError):
    """A commit was held up until its snapshot's number had been given to others and expired."""


class BadRecordsError(StreamAppError):
    """More records could not be decoded than `stream.max-bad-records` allows."""


class RecordTooLargeError(StreamAppError):
    """One record is larger than the whole write buffer."""


class WorkerLostError(StreamAppError):
    """A worker of Spark died in the middle of its task, as often as a task is tried."""


class CompactionError(StreamAppError):
    """A bucket cannot be compacted; its writes stop at the stop trigger."""


class StoppedError(StreamAppError):
    """The job was asked to end while it waited: nothing is wrong."""


class CommitError(StreamAppError):
    """A snapshot could not be published."""


class CommitConflictError(CommitError):
    """Another writer changed what this commit builds on.

    Attributes:
        files: names of the commit's files that do not fit; empty: nothing fits. It stays in the
            process that found out.
    """

    files: frozenset[str] = frozenset()
