"""The status of a job, table by table, whether it runs or not.

Reads the job's checkpoint and its tables' metadata, and asks the broker where the topics end.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from stream_app.app.config.job_tables.tables_of_job import TablesOfJob
from stream_app.app.ops.inspect.table_facts import TableFacts, freshness_s, table_facts
from stream_app.app.ops.load.load_progress import LoadProgress, load_progress
from stream_app.app.tables.job_catalog import open_job_table
from stream_app.app.tables.refused_tables import refused_tables
from stream_app.errors import StreamAppError, TableNotFoundError
from stream_app.kafka.offset_ranges import messages_behind
from stream_app.model.job_epoch import JobEpoch, Offsets
from stream_app.model.source.origin import Origin
from stream_app.planning.compact.waiting_rows import waiting_text
from stream_app.spark.checkpoint.epoch_log import EpochLog
from stream_app.spark.checkpoint.job_state import ONLY_TABLE, JobState, JobWarning, state_of
from stream_app.spark.job_folder import Folder
from stream_app.table.commit.recorded_epochs import newest_epoch

READY, HELD, WAITING, EMPTY, LOADING, MISSING, UNREADABLE, REFUSED, BEHIND = (
    "ready", "held", "waiting", "empty", "loading", "missing", "unreadable", "refused", "behind"
)  # fmt: skip

SHORT_REASON = 80
"""Characters of a reason in a list of tables, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One table of a job.

    Attributes:
        state: ``ready``: it has all epochs, and readers get them. ``held``: an error holds it back.
            ``waiting``: it waits for its compactions. ``empty``: no epoch had rows for it.
            ``loading``: its first load lasts. ``missing``: there is no table. ``unreadable``: its
            files cannot be read. ``refused``: nothing of a table of the source is stored, and
            `table` is the source's name.
            ``messages_behind``: ready, but too old for ``max-staleness`` (pages, `top`).
        epoch: the newest one that changed it; None: none.
        lag: messages of the table's topics that it lacks; None: unknown.
        fresh_s: seconds behind the source by the time of messages; 0: nothing is unread; None:
            unknown.
        changed_s: seconds since its newest epoch was committed.
        sorted_runs: those of the bucket with most.
        waiting_rows: committed rows that readers get only after a compaction.
        proven_s: seconds since a comparison has found the table equal to its source.
        proven_at: the position of the source then, such as an LSN or a GTID.
    """

    table: str
    state: str
    epoch: int | None = None
    snapshot: int | None = None
    lag: int | None = None
    fresh_s: int | None = None
    changed_s: int | None = None
    sorted_runs: int | None = None
    waiting_rows: int = 0
    proven_s: int | None = None
    proven_at: str | None = None
    reason: str | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether the reason is one to act on; that of a first load is its progress."""
        return self.reason is not None and self.state != LOADING


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """A job, by its tables and its checkpoint.

    Attributes:
        ends: end offsets of the job's topics; None if the broker does not answer.
        facts_of: returns cached facts of the table in a folder; None: the facts are read.
    """

    tables_of_job: TablesOfJob
    checkpoint: Folder
    ends: Offsets | None
    now_ms: int
    facts_of: Callable[[str], TableFacts] | None = None

    def tables(self) -> Iterator[TableStatus]:
        """The status of each table, by name.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        looked_at, newest_ms = self._all()
        statuses = (self._with_freshness(status, facts, newest_ms) for status, facts in looked_at)
        refused = (
            TableStatus(table=str(origin), state=REFUSED, reason=why)
            for origin, why in self.refused().items()
        )
        return itertools.chain(statuses, refused)

    def table(self, name: str, newest_ms: int | None) -> TableStatus | None:
        """The status of one table; None: the job has not met it.

        Args:
            newest_ms: see `newest_ms`; None: unknown.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        job = state_of(self.checkpoint)
        path = self.paths(job).get(name)
        if path is None:
            return None
        status, facts = self._look(name, path, job, self._ends_by_table(job))
        status = _loading(status, facts, load_progress(self.checkpoint))
        return self._with_freshness(status, facts, newest_ms)

    def load_line(self) -> str | None:
        """How far the job's first load is, for people; None: none lasts.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        load = load_progress(self.checkpoint)
        if load is None:
            return None
        looked_at = [facts for _, facts in self._all()[0]]
        newest = max((facts.time_ms for facts in looked_at if facts.time_ms), default=None)
        return load.line(sum(facts.rows or 0 for facts in looked_at), newest)

    def newest_ms(self) -> int | None:
        """Time of the newest message in any ready table, in ms since 1970; None: unknown.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return self._all()[1]

    def _all(self) -> tuple[list[tuple[TableStatus, TableFacts]], int | None]:
        job, load = state_of(self.checkpoint), load_progress(self.checkpoint)
        ends = self._ends_by_table(job)
        looked_at = [
            (_loading(status, facts, load), facts)
            for name, path in sorted(self.paths(job).items())
            for status, facts in [self._look(name, path, job, ends)]
        ]
        times = [
            facts.source_ms
            for status, facts in looked_at
            if status.state == READY and facts.source_ms
        ]
        return looked_at, max(times, default=None)

    def refused(self) -> Mapping[Origin, str]:
        """The reason for each source table that the job should store but does not.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return refused_tables(state_of(self.checkpoint), self.tables_of_job.rules)

    def warnings(self) -> Sequence[JobWarning]:
        """The warnings of the job.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return state_of(self.checkpoint).warnings

    def decoder(self) -> str:
        """What decodes the job's messages; empty: the format leaves no choice, or none has begun.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return state_of(self.checkpoint).decoder

    def _with_freshness(
        self, status: TableStatus, facts: TableFacts, newest_ms: int | None
    ) -> TableStatus:
        """The status with its freshness, for which epochs without rows for the table count too."""
        if status.waiting_rows:
            return status  # the time of the newest readable row is not known
        source_ms = facts.source_ms
        if status.state == READY and newest_ms is not None:
            source_ms = max(newest_ms, source_ms or 0)
        return replace(status, fresh_s=freshness_s(self.now_ms, source_ms, status.lag))

    def _ends_by_table(self, job: JobState) -> Callable[[str], Offsets | None]:
        """The end offsets of each table's topics, by its name: see `own_ends`."""
        if self.ends is None:
            return lambda _: None
        # The only table of a job has all topics, even those without a message so far.
        met = {name: set(topics) for name, topics in job.source_tables.items()}
        met.pop(ONLY_TABLE, None)
        return partial(own_ends, self.ends, met)

    def _look(
        self, name: str, path: str, job: JobState, ends: Callable[[str], Offsets | None]
    ) -> tuple[TableStatus, TableFacts]:
        try:
            facts = self._facts(path)
            return self._of_table(name, facts, job, ends(name)), facts
        except TableNotFoundError as error:
            state, reason = MISSING, error.what
        except (StreamAppError, OSError) as error:
            state, reason = UNREADABLE, str(error)
        waiting = job.held.get(name)
        if waiting is None:
            return TableStatus(table=name, state=state, reason=reason), TableFacts()
        lag = _lag(waiting.begin, ends(name))
        return TableStatus(table=name, state=HELD, lag=lag, reason=waiting.reason), TableFacts()

    def _facts(self, path: str) -> TableFacts:
        if self.facts_of is not None:
            return self.facts_of(path)
        table = open_job_table(self.tables_of_job, path)
        return table_facts(table, of_job=True)

    def paths(self, job: JobState | None = None) -> Mapping[str, str]:
        """The folder of each table that the job has met, by its name.

        Args:
            job: the tables' state in the checkpoint; None: it is read.
        """
        job = job or state_of(self.checkpoint)
        return self.tables_of_job.paths([*job.origins.values(), *job.held, *job.newest])

    def positions(self) -> dict[str, Offsets]:
        """The offsets up to which each table has read its topics; omits unreadable tables.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        job, positions = state_of(self.checkpoint), {}
        for name, path in self.paths(job).items():
            with contextlib.suppress(StreamAppError, OSError):
                table = open_job_table(self.tables_of_job, path)
                newest = newest_epoch(table.snapshots, _user(self.checkpoint))
                waiting = job.held.get(name)
                positions[name] = self._position(job, newest) if waiting is None else waiting.begin
        return positions

    def _of_table(
        self, name: str, facts: TableFacts, job: JobState, ends: Offsets | None
    ) -> TableStatus:
        waiting, newest = job.held.get(name), facts.epochs.get(_user(self.checkpoint))
        state = READY if newest is not None else EMPTY
        position = self._position(job, newest)
        if waiting is not None:
            state = HELD if waiting.has_failed else WAITING
            position = waiting.begin
        status = TableStatus(
            table=name,
            state=state,
            epoch=None if newest is None else newest.identifier,
            snapshot=facts.snapshot,
            lag=_lag(position, ends),
            changed_s=_seconds_since(newest.time_millis if newest else None, self.now_ms),
            sorted_runs=facts.sorted_runs,
            proven_s=_seconds_since(facts.proven_ms, self.now_ms),
            proven_at=facts.proven_at,
            reason=None if waiting is None else waiting.reason,
        )
        return with_waiting_rows(status, facts.waiting_rows)

    def _position(self, job: JobState, newest: JobEpoch | None) -> Offsets:
        """The offsets up to which a table without an error has read."""
        end = newest.source_end if newest is not None else None
        if job.epoch >= 0:
            # Spark deletes the offsets of old epochs.
            with contextlib.suppress(FileNotFoundError):
                end = _log(self.checkpoint).source_end(job.epoch)
        position: Offsets = json.loads(end) if end else {}
        return position


def _loading(status: TableStatus, facts: TableFacts, load: LoadProgress | None) -> TableStatus:
    """The status of a table whose first load may last."""
    ranges = None if load is None else load.of_tables.get(status.table)
    if ranges is None or status.state not in (READY, EMPTY):
        return status
    reason = f"first load: {ranges}, {facts.rows or 0:,} rows"
    return replace(status, state=LOADING, reason=reason)


def with_waiting_rows(status: TableStatus, rows: int) -> TableStatus:
    """The status with a count of waiting rows; a ready table with such rows becomes `waiting`."""
    status = replace(status, waiting_rows=rows)
    if not rows or status.state not in (READY, EMPTY):
        return status
    return replace(status, state=WAITING, fresh_s=None, reason=waiting_text(rows))


def own_ends(ends: Offsets, met: Mapping[str, Collection[str]], name: str) -> Offsets:
    """The ends of the topics that have brought a table messages.

    For a table without messages so far, these are all topics that do not belong to other tables
    alone.

    Args:
        met: the topics of each table.
    """
    others = {topic for other, topics in met.items() if other != name for topic in topics}
    own = set(met.get(name, ())) or ends.keys() - others or ends.keys()
    return {topic: partitions for topic, partitions in ends.items() if topic in own}


def in_short(row: TableStatus) -> TableStatus:
    """The first line of the reason, shortened to fit beside the other columns."""
    if row.reason is None:
        return row
    [first, *more] = row.reason.splitlines() or [""]
    cut = first[: SHORT_REASON - 1] if more or len(first) > SHORT_REASON else first
    return replace(row, reason=cut if cut == row.reason else f"{cut.rstrip(':;,. ')}…")


def _seconds_since(millis: int | None, now_ms: int) -> int | None:
    return None if millis is None else max(0, now_ms - millis) // 1000


def _user(checkpoint: Folder) -> str:
    try:
        return _log(checkpoint).query_id()
    except FileNotFoundError:
        return ""


def _lag(position: Offsets, ends: Offsets | None) -> int | None:
    return None if ends is None else sum(messages_behind(position, ends).values())


def _log(checkpoint: Folder) -> EpochLog:
    return EpochLog(checkpoint, goes_back=True)
