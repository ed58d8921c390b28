"""The port that runs an epoch's tasks and returns their output.

`range_epochs` and `dataframe_epochs` implement it with Spark jobs. `driver_epochs` runs small
epochs in the driver, and `load_epochs` runs those of a first load.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA, MESSAGE_SCHEMA
from stream_app.epochs.stages.blocks import UNREADABLE_INDEX, BlockKind, bad_records_of, messages_of
from stream_app.epochs.stages.decode_counts import DecodeCounts, counts_of
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_seconds import TaskSeconds
from stream_app.epochs.stages.write_task import TaskResult
from stream_app.epochs.task_errors import failure_of
from stream_app.errors import StreamAppError
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.job_epoch import Offsets

MessagesT = TypeVar("MessagesT")
"""The type in which a runner gets the messages of an epoch, such as a DataFrame of Spark."""


@dataclass(slots=True)
class TableOutput:
    """The tasks' output for one table.

    Attributes:
        changes: a change for each bucket and task, whose files are not yet in a snapshot.
        bad_record_batches: batches of `BAD_RECORD_SCHEMA`.
        failure: a task's error at this table, if tables are held.
        ran_in_driver: whether the driver itself did the work of the tasks.
    """

    changes: list[BucketChange] = field(default_factory=list)
    bad_record_batches: list[pa.RecordBatch] = field(default_factory=list)
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    failure: StreamAppError | None = None
    ran_in_driver: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether the epoch has no output for the table."""
        has_output = self.changes or self.bad_record_batches or self.counts.truncation_offsets
        return not has_output and self.failure is None

    def bad_records(self) -> pa.Table:
        """Return the bad records as `BAD_RECORD_SCHEMA`, in the order in which tasks end."""
        return pa.Table.from_batches(self.bad_record_batches, BAD_RECORD_SCHEMA)


@dataclass(frozen=True, slots=True)
class EpochOutput:
    """The tasks' output.

    Attributes:
        table_outputs: by the table's index in the plan, without tables for which the epoch has
            nothing.
        newcomer_messages: some messages of tables that the job does not have yet; `MESSAGE_SCHEMA`.
        unassigned_records: messages that cannot be assigned to a table; `BAD_RECORD_SCHEMA`.
        statements: messages that may carry statements of the source; `MESSAGE_SCHEMA`.
    """

    table_outputs: Mapping[int, TableOutput]
    newcomer_messages: pa.Table
    unassigned_records: pa.Table
    statements: pa.Table

    @property
    def slowest_task(self) -> TaskSeconds:
        """The task before the shuffle that lasted longest."""
        slowest_tasks = (
            table_output.counts.slowest_task for table_output in self.table_outputs.values()
        )
        return max(slowest_tasks, default=TaskSeconds())


BlockWriter = Callable[[EpochPlan], EpochOutput]
"""Writes an epoch's blocks, for a plan of the same tables.

When a task fails, its files are deleted.
"""


@dataclass(frozen=True, slots=True)
class RoutedEpoch:
    """An epoch whose blocks have been assigned to writing tasks.

    Attributes:
        message_count: number of messages read, if the runner knows.
        write: writes the blocks.
        table_indices: those of the tables that have blocks; None if the runner does not know.
    """

    message_count: int
    write: BlockWriter
    table_indices: Set[int] | None = None


class EpochRunner(Protocol[MessagesT]):
    """The runner of an epoch's tasks; `MessagesT` is the type of an epoch's messages."""

    @property
    def overlaps(self) -> bool:
        """Whether an epoch can be routed while the previous one is written."""
        ...

    def route(self, epoch: int, messages: MessagesT, plan: EpochPlan) -> RoutedEpoch:
        """Read the messages once, decode them, and assign their blocks to writing tasks.

        A runner that does not overlap may leave all the work to the writing.
        """
        ...

    def messages_between(self, start_offsets: Offsets, end_offsets: Offsets) -> MessagesT:
        """Return the messages from `start_offsets` (inclusive) to `end_offsets` (exclusive).

        A partition that `start_offsets` lacks is read from its first message.
        """
        ...


class JobRunner(EpochRunner[MessagesT], Protocol[MessagesT]):
    """An epoch runner of a whole job, with workers and connections of its own."""

    def warm_up(self, plan: EpochPlan) -> None:
        """Run an epoch without messages, which starts the workers."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def output_of(results: Iterable[TaskResult], *, ran_in_driver: bool = False) -> EpochOutput:
    """Return the output of all tasks.

    Args:
        results: the results of all writing tasks, in any order.
        ran_in_driver: whether the driver itself did the work of the tasks.
    """
    table_outputs = defaultdict[int, TableOutput](partial(TableOutput, ran_in_driver=ran_in_driver))
    newcomer_messages: list[pa.RecordBatch] = []
    unassigned_batches: list[pa.RecordBatch] = []
    statements: list[pa.RecordBatch] = []
    for table_index, kind, payload in results:
        if table_index == UNREADABLE_INDEX:
            unassigned_batches.append(bad_records_of(payload))
            continue
        match kind:
            case BlockKind.NEWCOMERS:
                newcomer_messages.append(messages_of(payload))
            case BlockKind.STATEMENTS:
                statements.append(messages_of(payload))
            case BlockKind.CHANGES:
                table_outputs[table_index].changes.append(_bucket_change(payload))
            case BlockKind.BAD_RECORDS:
                table_outputs[table_index].bad_record_batches.append(bad_records_of(payload))
            case BlockKind.FAILURE:
                table_outputs[table_index].failure = failure_of(payload)
            case _:  # `COUNTS`
                table_output = table_outputs[table_index]
                table_output.counts = table_output.counts.plus(counts_of(payload))
    return EpochOutput(
        table_outputs=table_outputs,
        newcomer_messages=pa.Table.from_batches(newcomer_messages, MESSAGE_SCHEMA),
        unassigned_records=pa.Table.from_batches(unassigned_batches, BAD_RECORD_SCHEMA),
        statements=pa.Table.from_batches(statements, MESSAGE_SCHEMA),
    )


def _bucket_change(payload: bytes) -> BucketChange:
    """Return the change in a row of kind ``CHANGES``; only this job's own tasks write such rows."""
    change = pickle.loads(payload)
    assert isinstance(change, BucketChange)
    return change
