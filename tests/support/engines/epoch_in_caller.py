"""Runs an epoch's tasks in the caller without Spark: the same functions, the same shuffle."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stream_app.epochs.stages.blocks import Block, TaskAssigner
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_runner import EpochOutput, RoutedEpoch, output_of
from stream_app.epochs.stages.route_task import route_in_task
from stream_app.epochs.stages.write_task import TaskBlock, TaskResult, write_in_task
from stream_app.model.job_epoch import Offsets

Parts = Sequence[pa.RecordBatch]
"""The messages of an epoch; one task reads each batch."""


@dataclass
class EpochHere:
    """An `EpochRunner` that runs the tasks in the caller.

    Attributes:
        plans: of each epoch that was run, the last one.
        topics: all messages, for epochs that go back.
    """

    plans: dict[int, EpochPlan] = field(default_factory=dict)
    topics: list[pa.RecordBatch] = field(default_factory=list)
    overlaps: bool = False

    def route(self, epoch: int, messages: Parts, plan: EpochPlan) -> RoutedEpoch:
        assigner = TaskAssigner(plan.settings.task_count)
        tasks: dict[int, list[Block]] = defaultdict(list)
        for part in messages:
            for block in route_in_task([part], plan):
                tasks[assigner.task(block)].append(block)

        def write(plan: EpochPlan) -> EpochOutput:
            self.plans[epoch] = plan
            written = (row for task in tasks.values() for row in _written(task, plan))
            return output_of(written)

        tables = {block.table_index for blocks in tasks.values() for block in blocks}
        return RoutedEpoch(sum(part.num_rows for part in messages), write, tables)

    def messages_between(self, start_offsets: Offsets, end_offsets: Offsets) -> Parts:
        def is_wanted(row: dict[str, Any]) -> bool:
            topic, partition = row["topic"], str(row["partition"])
            first = start_offsets.get(topic, {}).get(partition, 0)
            return bool(first <= row["offset"] < end_offsets.get(topic, {}).get(partition, 0))

        chosen_messages = [
            batch.filter(pa.array([is_wanted(row) for row in batch.to_pylist()], pa.bool_()))
            for batch in self.topics
        ]
        return [batch for batch in chosen_messages if batch.num_rows]


def _written(blocks: list[Block], plan: EpochPlan) -> Iterator[TaskResult]:
    ordered_blocks = sorted(blocks, key=lambda block: block.sort_key)
    return write_in_task(
        (
            TaskBlock(block.table_index, block.kind, block.partition, block.bucket, block.data)
            for block in ordered_blocks
        ),
        plan,
    )
