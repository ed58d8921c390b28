"""The tables of a job that wait: each has a reason, and offsets of its own where it goes on.

A table that fails does not stop the others. Its changes stay in the topic until the cause has
passed or is mended; then one epoch of its own brings it up to the others. Where it goes on is in
the checkpoint's folder before the epoch ends that it lacks, so nothing is lost.

The file is ``tables.json`` in the checkpoint's folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stream_app.errors import (
    CheckpointError,
    CommitError,
    CompactionError,
    NoAccessError,
    StorageError,
    StreamAppError,
    UnsupportedTableError,
)
from stream_app.kafka.offset_ranges import Offsets
from stream_app.spark.job_folder import Folder

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5, 600
_FILE = "tables.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldTable:
    """A table that waits.

    Attributes:
        since_epoch: the first epoch that it lacks.
        begin: the first offsets that it lacks; partitions that are new since are missing.
        reason: the error, in its own words.
        since_ms, retry_ms: when it was first held back, and when the job tries again; UTC. None:
            only a person can mend the cause, and then resumes it, or starts the job again.
        tries: failures in a row; 0: nothing is wrong, and it waits for its compactions.
    """

    since_epoch: int
    begin: Offsets
    reason: str
    since_ms: int
    retry_ms: int | None
    tries: int = 1

    @property
    def has_failed(self) -> bool:
        """Whether something is wrong; else the table waits for its compactions."""
        return self.tries > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTables:
    """What a job of many tables remembers.

    Attributes:
        epoch: the newest that all tables have, but those that are held; -1 before the first.
        newest: table → the newest epoch that brought it changes.
    """

    epoch: int = -1
    newest: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, HeldTable] = field(default_factory=dict)


class CompactionWaitError(CompactionError):
    """A bucket has too many sorted runs; its compaction is under way."""

    def __init__(self, where: str) -> None:
        super().__init__(
            "a bucket has too many sorted runs: the table waits for its compactions", where=where
        )


def is_temporary(error: BaseException) -> bool:
    """Whether the cause may pass by itself."""
    if isinstance(error, (NoAccessError, UnsupportedTableError)):
        return False
    if isinstance(error, (StorageError, CommitError, CompactionError, OSError)):
        return True
    return not isinstance(error, StreamAppError)


def held(
    error: BaseException, *, epoch: int, begin: Offsets, now_ms: int, before: HeldTable | None
) -> HeldTable:
    """A table that has failed, once more if it was held `before`."""
    tries = 1 if before is None else before.tries + 1
    pause_ms = 1000 * min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S)
    if isinstance(error, CompactionWaitError):
        tries = pause_ms = 0
    retry_ms = now_ms + pause_ms if is_temporary(error) else None
    reason = str(error) or type(error).__name__
    if before is not None:
        return replace(before, reason=reason, retry_ms=retry_ms, tries=tries)
    return HeldTable(
        since_epoch=epoch,
        begin=begin,
        reason=reason,
        since_ms=now_ms,
        retry_ms=retry_ms,
        tries=tries,
    )


def with_new_partitions(begin: Offsets, of_epoch: Offsets) -> Offsets:
    """Offsets to go on from, with partitions that a later epoch has met first."""
    return {
        topic: {**of_epoch.get(topic, {}), **begin.get(topic, {})} for topic in {*begin, *of_epoch}
    }


def read_tables(folder: Folder) -> JobTables | None:
    """What a job has remembered; None: nothing yet.

    Raises:
        CheckpointError: the file is damaged.
    """
    try:
        document = json.loads(folder.files.read_bytes(folder.path(_FILE)))
        waiting = {name: HeldTable(**each) for name, each in document.pop("held").items()}
        return JobTables(**document, held=waiting)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(
            f"{_FILE} of the checkpoint is damaged: {error}",
            where=str(folder),
            fix="restore it with the checkpoint; without it the job cannot know where tables that "
            "were held back go on",
        ) from None


def write_tables(folder: Folder, tables: JobTables) -> None:
    """Remember, atomically."""
    document: dict[str, Any] = asdict(tables)
    folder.files.overwrite(folder.path(_FILE), json.dumps(document).encode())


@dataclass(slots=True)
class HeldTables:
    """Keeps and persists which tables wait.

    Attributes:
        folder: the checkpoint.
        now_ms: the time, UTC.
        on_change: gets a table's name, and its state if it waits.
    """

    folder: Folder
    now_ms: Callable[[], int]
    on_change: Callable[[str, HeldTable | None], None] = lambda _name, _held: None
    tables: JobTables = field(init=False)

    def __post_init__(self) -> None:
        self.tables = read_tables(self.folder) or JobTables()

    def __contains__(self, name: str) -> bool:
        return name in self.tables.held

    def hold(self, name: str, error: BaseException, epoch: int, begin: Offsets) -> HeldTable:
        """Note that a table has failed; `finish` or `save` persists it."""
        before = self.tables.held.get(name)
        waiting = held(error, epoch=epoch, begin=begin, now_ms=self.now_ms(), before=before)
        self.tables = replace(self.tables, held={**self.tables.held, name: waiting})
        self.on_change(name, waiting)
        return waiting

    def release(self, name: str) -> None:
        """A table has all epochs again."""
        rest = {each: held for each, held in self.tables.held.items() if each != name}
        self.tables = replace(self.tables, held=rest)
        self.on_change(name, None)

    def go_on(self, name: str, begin: Offsets) -> None:
        """A held table lacks nothing before some offsets."""
        waiting = replace(self.tables.held[name], begin=begin)
        self.tables = replace(self.tables, held={**self.tables.held, name: waiting})

    def meet(self, begin: Offsets) -> None:
        """Take in where the partitions of an epoch begin, for those that are new."""
        self.tables = replace(
            self.tables,
            held={
                name: replace(each, begin=with_new_partitions(each.begin, begin))
                for name, each in self.tables.held.items()
            },
        )

    def tell_all(self) -> frozenset[str]:
        """A run begins: tell of the tables that wait already; returns their names."""
        for name, waiting in self.tables.held.items():
            self.on_change(name, waiting)
        return frozenset(self.tables.held)

    def try_all(self) -> None:
        """A run begins: whatever held a table back may have been mended."""
        now = self.now_ms()
        self.tables = replace(
            self.tables,
            held={name: replace(each, retry_ms=now) for name, each in self.tables.held.items()},
        )

    def due(self) -> Mapping[str, HeldTable]:
        """The tables to be tried again."""
        now = self.now_ms()
        return {
            name: each
            for name, each in self.tables.held.items()
            if (each.retry_ms is not None and each.retry_ms <= now) or self._is_resumed(name, each)
        }

    def finish(self, epoch: int, changed: Mapping[str, int]) -> None:
        """All tables have an epoch, but those that are held.

        Args:
            changed: table → the epoch, for those that it brought changes.
        """
        newest = {**self.tables.newest, **changed}
        self.tables = replace(self.tables, epoch=epoch, newest=newest)
        self.save()

    def save(self) -> None:
        """Persist what is known."""
        write_tables(self.folder, self.tables)

    def _is_resumed(self, name: str, waiting: HeldTable) -> bool:
        try:
            told = json.loads(self.folder.files.read_bytes(self.folder.path(f"resume/{name}.json")))
        except FileNotFoundError:
            return False
        return bool(told["at_ms"] > waiting.since_ms and told["tries"] == waiting.tries)


def resume(folder: Folder, name: str, now_ms: int) -> None:
    """Ask the running job, or the next one, to try a held table again.

    Raises:
        KeyError: the table is not held.
    """
    tables = read_tables(folder) or JobTables()
    document = {"at_ms": now_ms, "tries": tables.held[name].tries}
    folder.files.overwrite(folder.path(f"resume/{name}.json"), json.dumps(document).encode())
