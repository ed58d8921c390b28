"""Decoding tasks without Spark give the right rows, in the right blocks and order."""

from __future__ import annotations

import itertools
import pickle
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, schema_of_changes
from stream_app.epochs.stages.blocks import (
    BLOCK_ORDER,
    BlockKind,
    bad_records_of,
    block_rows,
    task_addresses,
)
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd, counts_of
from stream_app.epochs.stages.epoch_plan import EpochPlan, EpochSettings, TableMessages
from stream_app.epochs.stages.route_task import route_in_task
from stream_app.fileio.counted_file_io import RequestCounter, counting_file_io
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.bucket_hash import murmur_hash
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.versions.bucket_basis import NO_BASIS
from tests.support.engines.routed_messages import (
    COLUMNS,
    Message,
    a_message,
    a_plan,
    a_schema,
    batch_of,
    table_plan,
)
from tests.support.tables.small_table import StandingClock


def schema_of(plan: EpochPlan) -> TableSchema:
    return plan.table_plans[0].table.schema


def test_a_worker_keeps_tables_unpacked_for_later_epochs() -> None:
    plan = a_plan()
    later = EpochPlan(
        table_plans={0: plan.table_plans[0].for_next_epoch(7, NO_BASIS)}, settings=plan.settings
    )
    first, second = (
        pickle.loads(pickle.dumps(epoch_plan)).table_plans[0] for epoch_plan in (plan, later)
    )
    assert second.pipeline is first.pipeline
    assert second.next_sequence_number == 7
    assert second.table == plan.table_plans[0].table, "with its file system"


def test_a_plan_of_many_tables_is_small() -> None:
    plans = {index: table_plan() for index in range(1000) if index != 130}
    single, many = (
        EpochPlan(table_plans=tables, settings=EpochSettings(task_count=1))
        for tables in ({0: plans[0]}, plans)
    )
    data = pickle.dumps(many)
    assert len(data) < len(pickle.dumps(single)) + 999 * 60
    shipped_plan = pickle.loads(data)
    assert shipped_plan.table_plans.keys() == plans.keys()
    assert shipped_plan.table_plans[999].table == plans[999].table


def test_tables_of_one_file_system_count_their_requests_apart() -> None:
    plan = table_plan()
    tables = {
        index: replace(
            plan,
            table=replace(
                plan.table, file_io=counting_file_io(plan.table.file_io, RequestCounter())
            ),
        )
        for index in range(2)
    }
    sent = EpochPlan(table_plans=tables, settings=EpochSettings(task_count=1))
    shipped_plan = pickle.loads(pickle.dumps(sent))
    first, second = (shipped_plan.table_plans[number].table for number in range(2))
    assert first.file_io == second.file_io
    first.add_store_requests({"get": 1})
    assert (first.store_requests(), second.store_requests()) == ({"get": 1}, {})


def blocks_of(plan: EpochPlan, *tasks: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    """All blocks in the order in which a writing task would get them, whichever task it is."""
    blocks = [
        row
        for batches in tasks
        for batch in block_rows(
            route_in_task(batches, pickle.loads(pickle.dumps(plan)), StandingClock()),
            plan.settings.task_count,
        )
        for row in batch.to_pylist()
    ]
    return sorted(blocks, key=lambda block: [block[name] for name in BLOCK_ORDER])


def change_blocks(blocks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [block for block in blocks if block["kind"] == BlockKind.CHANGES]


def changes_of(blocks: Iterable[dict[str, Any]], schema: TableSchema) -> list[dict[str, Any]]:
    columns = schema_of_changes(arrow_schema(schema.fields))
    rows = []
    for block in change_blocks(blocks):
        batch = pa.ipc.read_record_batch(pa.py_buffer(block["block"]), columns)
        assert batch.num_rows == block["rows"]
        rows += batch.to_pylist()
    return rows


@st.composite
def ranges_of_a_topic(draw: st.DrawFn) -> tuple[list[list[pa.RecordBatch]], list[Message]]:
    """Some Kafka partitions cut into ranges, one for each task, which reads it in batches."""
    tasks = []
    messages = []
    for partition in range(draw(st.integers(1, 3))):
        size = draw(st.integers(1, 60))
        keys = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
        # A key stands in one partition only, as a producer puts it.
        topic_messages = [
            a_message(offset, key=key * 3 + partition, partition=partition)
            for offset, key in enumerate(keys)
        ]
        messages += topic_messages
        cuts = sorted({0, size, *draw(st.lists(st.integers(0, size), max_size=4))})
        step = draw(st.integers(1, 30))
        tasks += [
            [
                batch_of(topic_messages[batch_start : min(batch_start + step, end)])
                for batch_start in range(start, end, step)
            ]
            for start, end in itertools.pairwise(cuts)
        ]
    return draw(st.permutations(tasks)), messages


@pytest.mark.variant
@settings(deadline=None, max_examples=60)
@given(ranges_of_a_topic(), st.integers(1, 2_000))
@pytest.mark.slow
def test_changes_of_a_key_stay_in_the_order_of_their_kafka_partition(
    case: tuple[list[list[pa.RecordBatch]], list[Message]], block_bytes_max: int
) -> None:
    tasks, messages = case
    plan = a_plan(block_bytes_max=block_bytes_max)
    offsets_of_key = defaultdict(list)
    for row in changes_of(blocks_of(plan, *tasks), schema_of(plan)):
        offsets_of_key[row["k"]].append(row["offset_"])
    expected = defaultdict(list)
    for _, _, offset, row_of_message in messages:
        assert row_of_message is not None
        expected[row_of_message["k"]].append(offset)
    assert offsets_of_key == expected


def test_a_task_may_read_whole_partitions_one_after_another() -> None:
    messages = [
        a_message(offset, partition=partition, key=partition, topic=topic)
        for topic in "ba"
        for partition in (1, 0)
        for offset in range(9)
    ]
    plan = a_plan()
    blocks = blocks_of(plan, [batch_of(messages[:13]), batch_of(messages[13:])])
    rows = changes_of(blocks, schema_of(plan))
    assert [row["offset_"] for row in rows if row["k"] == 0] == [*range(9), *range(9)]
    assert len(rows) == 36


@pytest.mark.parametrize("offsets", [[[1, 0]], [[1], [0]]])
def test_a_source_without_order_is_refused(offsets: list[list[int]]) -> None:
    with pytest.raises(AssertionError, match="in order of offsets"):
        blocks_of(a_plan(), [batch_of(map(a_message, of_batch)) for of_batch in offsets])


def test_small_blocks_are_gathered_and_large_ones_are_not() -> None:
    starts = range(0, 5000, 500)
    batches = [
        batch_of(a_message(offset, key=offset) for offset in range(start, start + 500))
        for start in starts
    ]
    gathered_blocks = change_blocks(blocks_of(a_plan(), batches))
    assert len(gathered_blocks) == 12, "3 partitions of 4 buckets, one block each"
    cut_blocks = change_blocks(blocks_of(a_plan(block_bytes_max=1), batches))
    assert len(cut_blocks) == 120, "one in each batch"
    assert {block["first_offset"] for block in cut_blocks} == set(starts)
    schema = a_schema("k BIGINT, p STRING, wide STRING")
    large = [
        batch_of([("t", 0, offset, {"k": 1, "p": "a", "wide": "x" * 1_500_000})])
        for offset in range(3)
    ]
    large_blocks = blocks_of(a_plan(schema), large)
    assert [block["first_offset"] for block in large_blocks if block["rows"]] == [0, 1, 2]
    assert [len(row["wide"]) for row in changes_of(large_blocks, schema)] == [1_500_000] * 3


def test_messages_without_a_change_are_counted_and_bad_ones_kept() -> None:
    good = [a_message(offset) for offset in range(3)]
    batch = batch_of([*good, ("t", 0, 3, None)])
    broken = pa.RecordBatch.from_pylist(
        [{"topic": "u", "partition": 7, "offset": 40, "value": b"{", "key": b"\xff"}],
        schema=MESSAGE_SCHEMA,
    )
    stamped_batch = broken.set_column(
        3, "timestamp", pa.array([1_700_000_000_123_456], pa.timestamp("us", "UTC"))
    )
    blocks = blocks_of(a_plan(), [batch], [stamped_batch])
    counts = DecodeCounts()
    for block in blocks:
        if block["kind"] == BlockKind.COUNTS:
            counts = counts.plus(counts_of(block["block"]))
    assert counts == DecodeCounts(
        message_count=5,
        change_count=3,
        skipped_count=1,
        bad_record_count=1,
        kind_counts=(3, 0, 0, 0),
        ends={("t", 0): PartitionEnd(3, None), ("u", 7): PartitionEnd(40, 1_700_000_000_123)},
        tables={("t", ""): (0, 0)},
    )
    assert counts.last_offsets() == {"t": {"0": 3}, "u": {"7": 40}}
    [bad_block] = [block for block in blocks if block["kind"] == BlockKind.BAD_RECORDS]
    assert (bad_block["topic"], bad_block["source_partition"], bad_block["first_offset"]) == (
        "u",
        7,
        40,
    )
    [record] = bad_records_of(bad_block["block"]).to_pylist()
    assert (record["key"], record["value"]) == (b"\xff", b"{")
    assert record["reason"]


def test_no_messages_give_no_blocks() -> None:
    assert blocks_of(a_plan(), [], [batch_of([])]) == []


def test_other_blocks_stand_before_those_of_buckets() -> None:
    """A writer sees each bucket's blocks in one piece."""
    blocks = blocks_of(a_plan(), [batch_of([a_message(0), ("t", 0, 1, {"k": None})])])
    kinds = [BlockKind(block["kind"]) for block in blocks]
    assert kinds[-1] == BlockKind.CHANGES
    assert sorted(kinds[:-1]) == [BlockKind.BAD_RECORDS, BlockKind.COUNTS]


@pytest.mark.parametrize(("partitions", "buckets", "tasks"), [(1, 8, 3), (300, 1, 4), (40, 5, 7)])
def test_buckets_are_spread_over_tasks(partitions: int, buckets: int, tasks: int) -> None:
    schema = a_schema(buckets=buckets)
    rows = [
        ("t", 0, offset, {"k": offset % 97, "p": f"day {offset % partitions}", "offset_": 0})
        for offset in range(partitions * 97)
    ]
    plan = a_plan(schema, tasks=tasks)
    where = defaultdict(set)
    for block in blocks_of(plan, [batch_of(rows)]):
        if block["kind"] == BlockKind.CHANGES:
            where[block["partition"], block["bucket"]].add(block["task"])
    assert len(where) == partitions * buckets
    assert all(len(addresses) == 1 for addresses in where.values())
    loads = Counter(address for [address] in where.values())
    assert set(loads) == set(task_addresses(tasks))
    fair = partitions * buckets / tasks
    if partitions == 1:
        assert max(loads.values()) - min(loads.values()) <= 1
    else:
        assert max(loads.values()) < 1.5 * fair


def test_without_buckets_each_kafka_partition_has_a_task_of_its_own() -> None:
    schema = new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=(),
        partition_keys=("p",),
        options={"bucket": "-1"},
        time_ms=0,
    )
    messages = [
        a_message(offset, key=offset, topic=topic, partition=partition)
        for topic in ("t", "u")
        for partition in range(6)
        for offset in range(20)
    ]
    blocks = blocks_of(a_plan(schema, tasks=6, block_bytes_max=600), [batch_of(messages)])
    changes = [block for block in blocks if block["kind"] == BlockKind.CHANGES]
    assert {block["bucket"] for block in changes} == {0}
    tasks = defaultdict(set)
    for block in changes:
        source = block["topic"], block["source_partition"], block["partition"]
        tasks[source].add(murmur_hash(struct.pack("<i", block["task"])) % 6)
    assert len(tasks) == 2 * 6 * 3
    assert {len(task_indices) for task_indices in tasks.values()} == {1}
    for topic, day in itertools.product("tu", {source[2] for source in tasks}):
        used_tasks = {
            task for source, [task] in tasks.items() if (source[0], source[2]) == (topic, day)
        }
        assert used_tasks == set(range(6))
    row_counts = Counter((row["k"], row["offset_"]) for row in changes_of(blocks, schema))
    assert row_counts == {(offset, offset): 12 for offset in range(20)}
    rows = changes_of([block for block in changes if block["topic"] == "u"], schema)
    assert len(rows) == 120


@dataclass(frozen=True)
class ByOffset:
    """Implements `MessageSplitter`: offsets are dealt out to the tables."""

    tables: int

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        offsets = messages.column("offset").to_numpy()
        for table in range(self.tables):
            yield TableMessages(table, messages.filter(pa.array(offsets % self.tables == table)))


def test_tables_of_one_bucket_are_spread_over_tasks() -> None:
    part = table_plan(a_schema(keys=("k",), partition_keys=(), buckets=1))
    settings = EpochSettings(task_count=6, splitter=ByOffset(6))
    plan = EpochPlan(table_plans=dict.fromkeys(range(6), part), settings=settings)
    blocks = blocks_of(plan, [batch_of(a_message(offset) for offset in range(60))])
    changes = [block for block in blocks if block["kind"] == BlockKind.CHANGES]
    assert [(block["table_index"], block["rows"]) for block in changes] == [
        (n, 10) for n in range(6)
    ]
    assert {block["task"] for block in changes} == set(task_addresses(6))


def test_messages_of_a_table_that_takes_no_part_are_left_out() -> None:
    part = table_plan()
    plan = EpochPlan(
        table_plans={0: part, 2: part}, settings=EpochSettings(task_count=2, splitter=ByOffset(3))
    )
    blocks = blocks_of(plan, [batch_of(a_message(offset) for offset in range(9))])
    counts = {
        block["table_index"]: counts_of(block["block"])
        for block in blocks
        if block["kind"] == BlockKind.COUNTS
    }
    assert {
        table: (count.message_count, count.change_count) for table, count in counts.items()
    } == {
        0: (3, 3),
        2: (3, 3),
    }
    assert counts[2].last_offsets() == {"t": {"0": 8}}
    assert {block["table_index"] for block in blocks} == {0, 2}
