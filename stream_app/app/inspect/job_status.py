"""Reports the status of a job, table by table, whether the job runs or not.

It reads the job's checkpoint, its tables' metadata, and the topics' end offsets.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.inspect.table_facts import TableFacts, freshness_s, table_facts
from stream_app.app.inspect.table_status import JobTableState, TableStatus
from stream_app.app.load.load_progress import LoadProgress, first_load_progress
from stream_app.app.opening.job_catalog import open_job_table
from stream_app.app.table_setup.refused_tables import refused_tables
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import ONLY_TABLE, JobState, JobWarning, state_or_empty
from stream_app.errors import StreamAppError, TableNotFoundError
from stream_app.format.snapshot_properties.source_end_json import offsets_of_end
from stream_app.kafka.offset_ranges import messages_behind
from stream_app.model.job_epoch import JobEpoch, Offsets
from stream_app.model.source.origin import Origin
from stream_app.planning.compact.waiting_rows import waiting_text
from stream_app.table.commit.recorded_epochs import newest_epoch


@dataclass(frozen=True)
class _CheckpointReading:
    """A reading of a job's checkpoint, which reads each of its facts at most once."""

    checkpoint: JobFolder

    @cached_property
    def job_state(self) -> JobState:
        """The job's state; empty before the first run.

        Raises:
            CheckpointError: its file is damaged.
        """
        return state_or_empty(self.checkpoint)

    @cached_property
    def commit_user(self) -> str:
        """The job's commit user; empty before the first run."""
        try:
            return self._epoch_log.query_id()
        except FileNotFoundError:
            return ""

    @cached_property
    def job_offsets(self) -> Offsets | None:
        """The offsets up to which the job has read, or None if the checkpoint has none.

        Raises:
            CheckpointError: the file of the offsets is damaged.
        """
        if self.job_state.epoch < 0:
            return None
        try:
            return self._epoch_log.end_offsets(self.job_state.epoch)
        except FileNotFoundError:  # Spark deletes the offsets of old epochs
            return None

    @property
    def _epoch_log(self) -> EpochLog:
        return EpochLog(self.checkpoint, can_reread=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """The status of a job, derived from its checkpoint and its tables.

    Attributes:
        ends: end offsets of the job's topics, or None if the broker does not respond.
        facts_of: returns cached facts of the table in a folder; None reads the facts.
    """

    job_tables: JobTables
    checkpoint: JobFolder
    ends: Offsets | None
    now_ms: int
    facts_of: Callable[[str], TableFacts] | None = None

    def tables(self) -> Iterator[TableStatus]:
        """Return the status of each table by name, and then of refused source tables.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        statuses, newest_time_ms = self._statuses()
        table_statuses = (
            self._with_freshness(status, facts, newest_time_ms) for status, facts in statuses
        )
        refused_statuses = (
            TableStatus(table=str(origin), state=JobTableState.REFUSED, reason=reason)
            for origin, reason in self.refused_reasons().items()
        )
        return itertools.chain(table_statuses, refused_statuses)

    def table(self, name: str, newest_time_ms: int | None) -> TableStatus | None:
        """Return the status of one table, or None if the job does not know it.

        Args:
            newest_time_ms: the value of `newest_time_ms`, or None if unknown.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        reading = _CheckpointReading(self.checkpoint)
        path = self.paths(reading.job_state).get(name)
        if path is None:
            return None
        ends_of = self._ends_by_table(reading.job_state)
        status, facts = self._status_of(name, path, reading, ends_of)
        status = _with_load(status, facts, first_load_progress(self.checkpoint))
        return self._with_freshness(status, facts, newest_time_ms)

    def first_load_line(self) -> str | None:
        """Describe the progress of the job's first load, or return None without one.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        load = first_load_progress(self.checkpoint)
        if load is None:
            return None
        all_facts = [facts for _, facts in self._statuses()[0]]
        newest_commit_time_ms = max(
            (facts.time_ms for facts in all_facts if facts.time_ms), default=None
        )
        return load.line(sum(facts.row_count or 0 for facts in all_facts), newest_commit_time_ms)

    def newest_time_ms(self) -> int | None:
        """Return the time of the newest message in any ready table, in ms since 1970, or None.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return self._statuses()[1]

    def _statuses(self) -> tuple[list[tuple[TableStatus, TableFacts]], int | None]:
        """Return the status and the facts of each table, and the result of `newest_time_ms`."""
        reading = _CheckpointReading(self.checkpoint)
        ends_of = self._ends_by_table(reading.job_state)
        load = first_load_progress(self.checkpoint)
        statuses = [
            (_with_load(status, facts, load), facts)
            for name, path in sorted(self.paths(reading.job_state).items())
            for status, facts in [self._status_of(name, path, reading, ends_of)]
        ]
        times = [
            facts.source_time_ms
            for status, facts in statuses
            if status.state is JobTableState.READY and facts.source_time_ms
        ]
        return statuses, max(times, default=None)

    def refused_reasons(self) -> Mapping[Origin, str]:
        """Return source table → reason, for those that the job should store but does not.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return refused_tables(state_or_empty(self.checkpoint), self.job_tables.rules)

    def warnings(self) -> Sequence[JobWarning]:
        """Return the warnings in the job's state.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return state_or_empty(self.checkpoint).warnings

    def decoder(self) -> str:
        """Return the name of the decoder; empty before the first run, or without a choice.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        return state_or_empty(self.checkpoint).decoder

    def _with_freshness(
        self, status: TableStatus, facts: TableFacts, newest_time_ms: int | None
    ) -> TableStatus:
        """Return the status with its freshness.

        An epoch without rows for the table counts too: it brings the table as far as the others.
        """
        if status.waiting_rows:
            return status  # the time of the newest readable row is not known
        source_time_ms = facts.source_time_ms
        if status.state is JobTableState.READY and newest_time_ms is not None:
            source_time_ms = max(newest_time_ms, source_time_ms or 0)
        return replace(status, fresh_s=freshness_s(self.now_ms, source_time_ms, status.lag))

    def _ends_by_table(self, job_state: JobState) -> Callable[[str], Offsets | None]:
        """Return a function: table → end offsets of its topics; see `ends_of_table`."""
        if self.ends is None:
            return lambda _: None
        # The only table of a job has all topics, also those without messages so far.
        topics_of = {name: set(topics) for name, topics in job_state.source_tables.items()}
        topics_of.pop(ONLY_TABLE, None)
        return partial(ends_of_table, self.ends, topics_of)

    def _status_of(
        self,
        name: str,
        path: str,
        reading: _CheckpointReading,
        ends_of: Callable[[str], Offsets | None],
    ) -> tuple[TableStatus, TableFacts]:
        """Return the status and the facts of one table, also if it is missing or unreadable."""
        try:
            facts = self._facts(path)
            return self._status_from(name, facts, reading, ends_of(name)), facts
        except TableNotFoundError as error:
            state, reason = JobTableState.MISSING, error.problem
        except (StreamAppError, OSError) as error:
            state = JobTableState.UNREADABLE
            reason = str(error)
        held_table = reading.job_state.held_tables.get(name)
        if held_table is None:
            return TableStatus(table=name, state=state, reason=reason), TableFacts()
        lag = _lag(held_table.start, ends_of(name))
        reason, state = held_table.reason, JobTableState.HELD
        return TableStatus(table=name, state=state, lag=lag, reason=reason), TableFacts()

    def _facts(self, path: str) -> TableFacts:
        if self.facts_of is not None:
            return self.facts_of(path)
        table = open_job_table(self.job_tables, path)
        return table_facts(table, is_of_job=True)

    def paths(self, job_state: JobState | None = None) -> Mapping[str, str]:
        """Return name → folder, for each table that the checkpoint names.

        Args:
            job_state: the state in the checkpoint, or None to read the checkpoint.
        """
        job_state = job_state or state_or_empty(self.checkpoint)
        return self.job_tables.paths(
            [*job_state.targets.values(), *job_state.held_tables, *job_state.newest_epochs]
        )

    def offsets_by_table(self) -> dict[str, Offsets]:
        """Return the offsets up to which each table has read its topics.

        Unreadable tables are omitted.

        Raises:
            CheckpointError: a file of the checkpoint is damaged.
        """
        reading = _CheckpointReading(self.checkpoint)
        offsets_by_table = {}
        job_offsets = reading.job_offsets
        for name, path in self.paths(reading.job_state).items():
            with contextlib.suppress(StreamAppError, OSError):
                table = open_job_table(self.job_tables, path)
                job_epoch = newest_epoch(table.snapshots, reading.commit_user)
                held_table = reading.job_state.held_tables.get(name)
                offsets_by_table[name] = (
                    _reached_offsets(job_offsets, job_epoch)
                    if held_table is None
                    else held_table.start
                )
        return offsets_by_table

    def _status_from(
        self, name: str, facts: TableFacts, reading: _CheckpointReading, ends: Offsets | None
    ) -> TableStatus:
        """Return the status of a readable table, from its facts and the checkpoint."""
        held_table = reading.job_state.held_tables.get(name)
        job_epoch = facts.epochs.get(reading.commit_user)
        state = JobTableState.READY if job_epoch is not None else JobTableState.EMPTY
        reached_offsets = _reached_offsets(reading.job_offsets, job_epoch)
        if held_table is not None:
            state = JobTableState.HELD if held_table.has_failed else JobTableState.WAITING
            reached_offsets = held_table.start
        status = TableStatus(
            table=name,
            state=state,
            epoch=None if job_epoch is None else job_epoch.identifier,
            snapshot=facts.snapshot_id,
            lag=_lag(reached_offsets, ends),
            changed_s=_seconds_since(job_epoch.time_ms if job_epoch else None, self.now_ms),
            sorted_runs=facts.sorted_run_count,
            reason=None if held_table is None else held_table.reason,
        )
        return with_waiting_rows(with_proof(status, facts, self.now_ms), facts.waiting_row_count)


def _reached_offsets(job_offsets: Offsets | None, job_epoch: JobEpoch | None) -> Offsets:
    """Return the offsets up to which a table has read that is not held back."""
    if job_offsets is not None:
        return job_offsets
    return offsets_of_end(None if job_epoch is None else job_epoch.source_end)


def _with_load(status: TableStatus, facts: TableFacts, load: LoadProgress | None) -> TableStatus:
    """Return the status with the state `loading` and the progress, if its first load still runs."""
    ranges = None if load is None else load.of_tables.get(status.table)
    if ranges is None or status.state not in (JobTableState.READY, JobTableState.EMPTY):
        return status
    reason = f"first load: {ranges}, {facts.row_count or 0:,} rows"
    return replace(status, state=JobTableState.LOADING, reason=reason)


def with_proof(status: TableStatus, facts: TableFacts, now_ms: int) -> TableStatus:
    """Return the status with the newest comparison that found the table equal to its source."""
    return replace(
        status,
        proven_s=_seconds_since(facts.proof_time_ms, now_ms),
        proven_at=facts.proven_at,
        proven_without=facts.proven_without,
    )


def with_waiting_rows(status: TableStatus, row_count: int) -> TableStatus:
    """Return the status with a count of waiting rows.

    A ready table with such rows becomes `waiting`.
    """
    status = replace(status, waiting_rows=row_count)
    if not row_count or status.state not in (JobTableState.READY, JobTableState.EMPTY):
        return status
    return replace(
        status, state=JobTableState.WAITING, fresh_s=None, reason=waiting_text(row_count)
    )


def ends_of_table(ends: Offsets, topics_of: Mapping[str, Collection[str]], name: str) -> Offsets:
    """Return the end offsets of the topics from which a table has messages.

    For a table without messages so far, these are the topics from which no other table has
    messages.

    Args:
        topics_of: table → its topics.
    """
    other_topics = {
        topic for table, topics in topics_of.items() if table != name for topic in topics
    }
    own_topics = set(topics_of.get(name, ())) or ends.keys() - other_topics or ends.keys()
    return {topic: topic_offsets for topic, topic_offsets in ends.items() if topic in own_topics}


def _seconds_since(time_ms: int | None, now_ms: int) -> int | None:
    return None if time_ms is None else max(0, now_ms - time_ms) // 1000


def _lag(reached_offsets: Offsets, ends: Offsets | None) -> int | None:
    return None if ends is None else sum(messages_behind(reached_offsets, ends).values())
