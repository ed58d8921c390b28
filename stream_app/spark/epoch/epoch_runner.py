"""The port by which an epoch's tasks are run, and what they give.

Implemented by `frame_epochs` (a Spark job) and by tests (in the caller).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import pyarrow as pa

from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA
from stream_app.model.bucket_change import BucketChange
from stream_app.spark.epoch.blocks import BlockKind, bad_records_of
from stream_app.spark.epoch.decode_counts import DecodeCounts, counts_of
from stream_app.spark.epoch.epoch_plan import EpochPlan
from stream_app.spark.epoch.write_task import TaskResult

Messages = TypeVar("Messages")
Messages_contra = TypeVar("Messages_contra", contravariant=True)


@dataclass(slots=True)
class TableOutput:
    """What the tasks have made of one table's messages.

    Attributes:
        changes: one for each bucket and task; nothing names their files yet.
        bad: batches of `BAD_RECORD_SCHEMA`.
    """

    changes: list[BucketChange] = field(default_factory=list)
    bad: list[pa.RecordBatch] = field(default_factory=list)
    counts: DecodeCounts = field(default_factory=DecodeCounts)

    def bad_records(self) -> pa.Table:
        """The bad records as a table of `BAD_RECORD_SCHEMA`, in whatever order the tasks end."""
        return pa.Table.from_batches(self.bad, BAD_RECORD_SCHEMA)


class EpochRunner(Protocol[Messages_contra]):
    """Runs the tasks of an epoch; `Messages` is whatever the epoch's messages come as."""

    def run(self, epoch: int, messages: Messages_contra, plan: EpochPlan) -> Sequence[TableOutput]:
        """Read the messages once; the output for each of the plan's tables.

        What was written is deleted when a task fails.
        """
        ...

    def with_keys(self, messages: Messages_contra, bad: pa.Table) -> pa.Table:
        """Bad records whose keys were left behind, with their keys; in any order.

        Args:
            bad: a table of `BAD_RECORD_SCHEMA`; so is the result.
        """
        ...


def outputs_of(plan: EpochPlan, results: Iterable[TaskResult]) -> Sequence[TableOutput]:
    """The output for each of the plan's tables.

    Args:
        results: of all writing tasks, in any order.
    """
    outputs = [TableOutput() for _ in plan.tables]
    for table, kind, payload in results:
        output = outputs[table]
        if kind == BlockKind.CHANGES:
            output.changes.append(_bucket_change(payload))
        elif kind == BlockKind.BAD_RECORDS:
            output.bad.append(bad_records_of(payload))
        else:
            output.counts = output.counts.plus(counts_of(payload))
    return outputs


def _bucket_change(payload: bytes) -> BucketChange:
    """The change in a row of kind ``CHANGES``; only this job's own tasks write such rows."""
    change = pickle.loads(payload)
    assert isinstance(change, BucketChange)
    return change
