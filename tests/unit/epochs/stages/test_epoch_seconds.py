"""The driver computes an epoch's parts from the times that tasks measure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.pipeline import Pipeline
from stream_app.epochs.stages.blocks import BlockKind
from stream_app.epochs.stages.decode_counts import DecodeCounts, counts_of
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_seconds import TaskSeconds, epoch_seconds, parse_epoch_seconds
from stream_app.epochs.stages.route_task import route_in_task
from tests.support.engines.routed_messages import a_message, a_plan, batch_of
from tests.support.tables.small_table import StandingClock


@dataclass(frozen=True)
class SlowFormat:
    """Decodes as another format, in a second for each message."""

    decoder: MessageFormat
    clock: StandingClock

    def decode(self, messages: pa.RecordBatch) -> Any:
        self.clock.sleep(messages.num_rows)
        return self.decoder.decode(messages)


def test_a_task_measures_reading_apart_from_decoding() -> None:
    clock, plan = StandingClock(), a_plan()
    of_table = plan.table_plans[0]
    slow_decoder = SlowFormat(of_table.pipeline, clock)
    slow = replace(of_table, pipeline=Pipeline(slow_decoder))

    def batches() -> Iterator[pa.RecordBatch]:
        for offset in (0, 2):
            clock.sleep(10)
            yield batch_of([a_message(offset), a_message(offset + 1)])
        clock.sleep(5)  # the end of the ranges may lie behind messages that do not come

    task_counts = []
    for block in route_in_task(
        batches(), EpochPlan(table_plans={0: slow}, settings=plan.settings), clock
    ):
        clock.sleep(1000)  # the consumer's time counts neither as reading nor as decoding
        if block.kind == BlockKind.COUNTS:
            task_counts.append(counts_of(block.data.to_pybytes()))
    [counts] = task_counts
    assert (counts.message_count, counts.read_s, counts.decode_s) == (4, 25, 4)
    assert (counts.slowest_task.read_s, counts.slowest_task.decode_s) == (25, 4)
    assert counts.slowest_task.total_s >= 1029


def test_the_slowest_task_counts_and_not_the_sum() -> None:
    long, short = TaskSeconds(5.0, 1.0, 3.0), TaskSeconds(4.0, 4.0, 0.0)
    counts = DecodeCounts(read_s=1.0, slowest_task=long).plus(
        DecodeCounts(read_s=4.0, slowest_task=short)
    )
    assert (counts.read_s, counts.slowest_task) == (5.0, long)


@pytest.mark.parametrize(
    ("slowest_task", "routing_s", "writing_s", "parts"),
    [
        pytest.param((3, 1, 1.5), 4, 2, (1, 1.5, 1.5, 2), id="two Spark jobs"),
        pytest.param((3, 1, 1.5), 0, 5, (1, 1.5, 0.5, 2), id="one Spark job has both"),
        pytest.param((9, 6, 3), 2, 3, (5, 0, 0, 0), id="a task that ran twice"),
        pytest.param((0, 0, 0), 1, 2, (0, 0, 1, 2), id="no task has reported"),
    ],
)
def test_the_parts_add_up_to_the_epoch(
    slowest_task: tuple[float, ...], routing_s: float, writing_s: float, parts: tuple[float, ...]
) -> None:
    seconds = epoch_seconds(
        TaskSeconds(*slowest_task), wait_s=0.5, routing_s=routing_s, writing_s=writing_s
    )
    assert (seconds.read_s, seconds.decode_s, seconds.route_s, seconds.write_s) == parts
    assert replace(seconds, commit_s=1).total_s == 0.5 + routing_s + writing_s + 1
    assert parse_epoch_seconds(seconds.as_property) == {
        "wait": 0.5, **dict(zip(("read", "decode", "route", "write"), parts, strict=True))
    }  # fmt: skip


@pytest.mark.parametrize("text", [None, "", "{", "[1]", json.dumps({"read": "<b>"}), '{"a": [1]}'])
def test_a_property_of_another_program_is_ignored(text: str | None) -> None:
    assert parse_epoch_seconds(text) == {}
