"""Stage 2 of an epoch: a task writes blocks to files, one bucket after another.

Blocks arrive in the order (table, partition, bucket, offset). So one writer is open at a
time, and its buffer bounds the task's memory. The task returns the buckets' changes to the driver
as bytes, and passes on bad records and counts.

Source: Paimon `flink/sink/StoreSinkWriteImpl.java`.
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple, Self

import pyarrow as pa

from stream_app.cdc.change_batch import schema_of_changes
from stream_app.epochs.stages.blocks import (
    NEWCOMERS_INDEX,
    STATEMENTS_INDEX,
    UNREADABLE_INDEX,
    BlockKind,
)
from stream_app.epochs.stages.decode_counts import DecodeCounts, counts_of_refused
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.incomplete_changes import bad_records_of_refused, incomplete_schema
from stream_app.epochs.task_errors import failure_bytes
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.bucket_id import BucketId
from stream_app.table.kinds.table_kind_registry import table_write
from stream_app.table.storage_errors import storage_errors
from stream_app.table.write.table_write import TableWrite


class TaskResult(NamedTuple):
    """A bucket's change, or a block that passes through.

    Attributes:
        payload: a pickled `BucketChange` if the kind is ``CHANGES``, else the block itself.
    """

    table_index: int
    kind: int
    payload: bytes


class TaskBlock(NamedTuple):
    """A block as a writing task receives it."""

    table_index: int
    kind: int
    partition: bytes
    bucket: int
    data: pa.Buffer


def write_in_task(blocks: Iterable[TaskBlock], plan: EpochPlan) -> Iterator[TaskResult]:
    """Write a task's blocks.

    If the task fails, it deletes its files in all tables. If the job holds failing tables, the task
    deletes only the failing table's files, and writes the others.
    """
    table_writers: list[_TableWriter] = []
    with ExitStack() as stack:
        for table_index, table_blocks in itertools.groupby(
            blocks, key=lambda block: block.table_index
        ):
            if table_index in (NEWCOMERS_INDEX, UNREADABLE_INDEX, STATEMENTS_INDEX):
                yield from (_forward(block) for block in table_blocks)
                continue
            if table_index not in plan.table_plans:
                continue  # the table has failed since its blocks were made
            table_writer = stack.enter_context(_TableWriter(table_index, plan))
            yield from table_writer.write_changes(table_blocks)
            table_writers.append(table_writer)
        for table_writer in table_writers:
            yield from table_writer.finish()


def _forward(block: TaskBlock) -> TaskResult:
    return TaskResult(block.table_index, block.kind, block.data.to_pybytes())


class _TableWriter:
    """The writer of one table's blocks in a task; on exit with an error it deletes its files."""

    def __init__(self, table_index: int, plan: EpochPlan) -> None:
        self._table_index = table_index
        self._holds_tables = plan.settings.holds_tables
        table_plan = plan.table_plans[table_index]
        # Rows before a TRUNCATE must not serve as older rows; the latest snapshot still has them.
        self._table = replace(table_plan.table, is_emptied=bool(table_plan.first_offsets))
        self._next_sequence_number = table_plan.next_sequence_number
        self._basis = table_plan.basis
        self._stack = ExitStack()
        self._write: TableWrite | None = None
        self._requests = Counter(self._table.store_requests())
        self._restores = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error_details: Any) -> None:
        with storage_errors(self._table.location):
            self._stack.__exit__(*error_details)

    def write_changes(self, blocks: Iterable[TaskBlock]) -> Iterator[TaskResult]:
        """Write changes; pass other blocks on."""
        columns = arrow_schema(self._table.schema.fields)
        schemas: dict[int, pa.Schema] = {
            BlockKind.CHANGES: schema_of_changes(columns),
            BlockKind.INCOMPLETE_CHANGES: incomplete_schema(columns),
        }
        has_failed = False
        for block in blocks:
            if block.kind not in schemas:
                yield _forward(block)
            elif not has_failed:
                self._restores |= block.kind == BlockKind.INCOMPLETE_CHANGES
                try:
                    rows = pa.ipc.read_record_batch(block.data, schemas[block.kind])
                    with storage_errors(self._table.location):
                        self._table_write().write(BucketId(block.partition, block.bucket), rows)
                except Exception as error:
                    has_failed = True
                    yield from self._report_failure(error)
        if self._write is not None and not has_failed:
            try:
                with storage_errors(self._table.location):
                    self._write.finish_bucket()
            except Exception as error:
                yield from self._report_failure(error)

    def finish(self) -> Iterator[TaskResult]:
        """Yield the changes of the buckets, once their files are durable."""
        if self._write is None:
            return
        try:
            with storage_errors(self._table.location):
                changes = self._write.prepare_commit()
        except Exception as error:
            yield from self._report_failure(error)
            return
        for change in changes:
            yield self._result(BlockKind.CHANGES, pickle.dumps(change))
        yield from self._report_requests()
        if self._restores or self._write.late_change_count:
            counts = DecodeCounts(
                has_restored_rows=self._restores, late_change_count=self._write.late_change_count
            )
            yield self._result(BlockKind.COUNTS, counts.to_bytes())
        if self._write.refused_batches:
            bad_records = bad_records_of_refused(self._write.refused_batches)
            counts = counts_of_refused(self._write.refused_batches)
            yield self._result(BlockKind.BAD_RECORDS, bad_records.serialize().to_pybytes())
            yield self._result(BlockKind.COUNTS, counts.to_bytes())

    def _result(self, kind: BlockKind, payload: bytes) -> TaskResult:
        return TaskResult(self._table_index, int(kind), payload)

    def _report_requests(self) -> Iterator[TaskResult]:
        if requests := Counter(self._table.store_requests()) - self._requests:
            counts = DecodeCounts(request_counts=requests)
            yield self._result(BlockKind.COUNTS, counts.to_bytes())

    def _table_write(self) -> TableWrite:
        """Return the table's writer, which is opened with the first changes."""
        if self._write is None:
            write = table_write(
                self._table,
                next_sequence_number=self._next_sequence_number,
                basis=self._basis,
            )
            self._write = self._stack.enter_context(write)
        return self._write

    def _report_failure(self, error: Exception) -> Iterator[TaskResult]:
        """Delete the table's files, and yield its error instead of its changes."""
        if not self._holds_tables:
            raise error
        self._write = None
        with contextlib.suppress(Exception):  # a file that cannot be deleted becomes an orphan
            self._stack.__exit__(type(error), error, error.__traceback__)
        self._stack = ExitStack()
        yield self._result(BlockKind.FAILURE, failure_bytes(error))
        yield from self._report_requests()
