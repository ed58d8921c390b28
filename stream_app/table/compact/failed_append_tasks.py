"""Failed tasks of a table without keys and buckets: what of them is tried again, and when.

Used by append_compact_coordinator. A damaged file is left as it is, so that the files beside it can
be compacted; what fails for any other reason is tried again as a whole.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from stream_app.errors import CorruptFileError
from stream_app.mergetree.compact.compact_executor import CompactRequest
from stream_app.model.bucket_id import BucketId
from stream_app.planning.compact.append_compaction import Task
from stream_app.table.compact.failures import CompactionFailures

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class FailedAppendTasks:
    """Remembers them until they are planned again.

    Attributes:
        failures: by bucket.
    """

    failures: CompactionFailures[BucketId]
    _again: list[Task] = field(default_factory=list)
    _damaged: dict[str, tuple[BucketId, BaseException]] = field(default_factory=dict)

    def note(self, request: CompactRequest, where: str, error: BaseException) -> None:
        """One has failed."""
        bucket = request.partition, request.bucket
        files = request.unit.files
        self.failures.note(bucket, where, error)
        place = error.where if isinstance(error, CorruptFileError) else ""
        damaged = {file.file_name for file in files if file.file_name in place}
        if damaged:
            self._damaged |= {name: (bucket, error) for name in damaged}
            _LOG.error(
                "%s: left as it is until the job is started again; the files beside it go on",
                ", ".join(sorted(damaged)),
            )
        again = tuple(file for file in files if file.file_name not in damaged)
        if again:
            self._again.append((request.partition, again))

    def ready(self) -> list[Task]:
        """Files that may be tried again now."""
        return [task for task in self._again if not self.failures.must_wait((task[0], 0))]

    def take_ready(self) -> list[Task]:
        """The same, for the last time: they are planned again."""
        ready = self.ready()
        self._again = [task for task in self._again if task not in ready]
        return ready

    def names(self) -> set[str]:
        """Files that are not to be planned: they wait, or are damaged."""
        return self._damaged.keys() | {file.file_name for _, files in self._again for file in files}

    def stuck(self) -> dict[BucketId, BaseException | None]:
        """Where tasks fail again and again, or files are damaged, with the last error."""
        return {**self.failures.stuck(), **dict(self._damaged.values())}

    def seconds_until_retry(self) -> float | None:
        """How long until files are tried again; None: there are none that are waited for."""
        return self.failures.seconds_until_retry() if self._again else None
