"""The functions of dense NumPy give the four-row examples of their docstrings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import pyarrow as pa

from stream_app.arrow_buffers import Int64s, lengths_of, offsets_of
from stream_app.cdc.columns.base64_columns import decode_base64
from stream_app.cdc.columns.byte_patterns import byte_pattern
from stream_app.cdc.debezium.decoding.image_heads import find_heads
from stream_app.cdc.debezium.decoding.known_frames import KnownFrames
from stream_app.cdc.rows.row_assembly import CREATE, DELETE, UPDATE, plan_rows
from stream_app.format.binary_row_columns import Words, encode_columns
from stream_app.format.bucket_hash import bucket_of, hash_rows
from stream_app.format.curve_order import hilbert_order, z_order
from stream_app.format.deletion_vector import DeletionVector
from stream_app.format.file_index.xx_hash import _mix_rest
from stream_app.mergetree.key_value_batch import (
    KeyValueLayout,
    batches_of_whole_keys,
    breaks_key_order,
    merge_order,
)
from stream_app.mergetree.lookup.key_lookup import rows_with_keys
from stream_app.mergetree.merge_engines.aggregates.collected import collect_elements
from stream_app.mergetree.merge_engines.aggregates.combined_values import combine_segments
from stream_app.mergetree.merge_engines.aggregates.elements import NestedColumn
from stream_app.mergetree.merge_engines.aggregates.limited_elements import (
    SegmentElements,
    _in_rounds,
    merge_maps_by_time,
)
from stream_app.mergetree.merge_engines.aggregates.listagg import join_texts
from stream_app.mergetree.merge_engines.aggregates.segment_changes import ChangeOp, SegmentChanges
from stream_app.mergetree.merge_engines.key_segments import KeySegments
from stream_app.mergetree.merge_engines.partial_update import grouped_changes
from stream_app.mergetree.sort_merge_reader import merge_windows
from stream_app.mergetree.spilled_runs import cut_between_keys
from stream_app.mergetree.write.history_versions import HistoryRule, _timelines
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.history_columns import HistoryColumns
from stream_app.model.schema.merge.merge_rules import ColumnAggregate, MergeRules, SequenceGroup
from stream_app.model.traits.merge_engine import OlderRowRule
from stream_app.table.key_index.placed_changes import NOWHERE, KeyChanges, place_changes
from stream_app.table.key_index.table_key_reader import (
    BUCKET_CODE,
    HASH_COLUMN,
    IS_LIVE,
    _newest_in_each_bucket,
)

SCHEMA = pa.schema(
    [("_SEQUENCE_NUMBER", pa.int64()), ("_VALUE_KIND", pa.int8()), ("k", pa.int32())]
)
LAYOUT = KeyValueLayout(schema=SCHEMA, key_names=("k",))
INT = parse_columns("a INT").types
INT_AND_STRING = parse_columns("a INT, s STRING").types
NUMBERS = pa.array([1, 2, 3, 4], pa.int32())


def rows(keys: list[int], sequence: list[int] | None = None) -> pa.RecordBatch:
    numbers = list(range(len(keys))) if sequence is None else sequence
    return pa.record_batch([numbers, [0] * len(keys), keys], schema=SCHEMA)


def keys_of(batch: pa.RecordBatch) -> list[int]:
    keys: list[int] = batch.column("k").to_pylist()
    return keys


def test_the_order_of_keys() -> None:
    order, last = merge_order(rows([7, 5, 7, 5], [9, 8, 7, 6]), LAYOUT)
    assert order.tolist() == [3, 1, 2, 0]
    assert last.tolist() == [False, True, False, True]
    batch = rows([5, 5, 7, 6])
    assert breaks_key_order(batch, ["k"], accepts_same=False).tolist() == [True, False, True]
    assert breaks_key_order(batch, ["k"], accepts_same=True).tolist() == [False, False, True]


def test_keys_stay_whole() -> None:
    batches = [rows([5, 6]), rows([6, 7])]
    assert [keys_of(batch) for batch in batches_of_whole_keys(batches, ["k"])] == [[5], [6, 6], [7]]
    pieces = cut_between_keys(rows([5, 5, 5, 7]), LAYOUT, 20)
    assert [keys_of(piece) for piece in pieces] == [[5, 5, 5], [7]]


def test_windows_of_two_runs() -> None:
    windows = list(
        merge_windows(
            [iter([rows([1, 3]), rows([9])]), iter([rows([2, 3], [4, 5]), rows([8])])], LAYOUT
        )
    )
    assert [keys_of(window.batch) for window in windows] == [[1, 3, 2, 3], [8], [9]]
    assert windows[0].order is not None
    assert windows[0].order.tolist() == [0, 2, 1, 3]
    assert windows[1].order is None


def test_binary_rows_and_their_hashes() -> None:
    texts = pa.array(["x", "long text", "", None])
    flat, offsets = encode_columns([NUMBERS, texts], INT_AND_STRING)
    assert offsets.tolist() == [0, 24, 64, 88, 112]
    assert flat[8:24].tobytes().hex(" ", 4) == "01000000 00000000 78000000 00000081"
    assert flat[40:56].tobytes().hex(" ", 4) == "09000000 18000000 6c6f6e67 20746578"
    hashes = hash_rows(*encode_columns([NUMBERS], INT))
    assert hashes.tolist() == [1465514398, 1340390384, -771300025, 1447522506]
    assert bucket_of([NUMBERS], INT, 2).tolist() == [0, 0, 1, 0]


def test_four_records_become_five_rows() -> None:
    has_before = np.array([False, True, True, False])
    has_after = np.array([True, True, False, True])
    ops = np.array([CREATE, UPDATE, DELETE, UPDATE], np.uint8)
    plan = plan_rows(ops, has_before, has_after, True)
    assert plan.record_indices.tolist() == [0, 1, 1, 2, 3]
    assert plan.row_kinds.tolist() == [
        RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE,
        RowKind.UPDATE_AFTER,
    ]  # fmt: skip
    before, after = pa.array([None, "b1", "b2", None]), pa.array(["a0", "a1", None, "a3"])
    assert plan.assemble_column(before, after).to_pylist() == ["a0", "b1", "a1", "b2", "a3"]


def test_buffers_vectors_and_base64() -> None:
    texts = pa.array(["a", "bc", None, "def"])
    assert offsets_of(texts).tolist() == [0, 1, 3, 3, 6]
    assert lengths_of(texts).tolist() == [1, 2, 0, 3]
    mask = DeletionVector.of_positions([6, 9]).keep_mask(5, 4)
    assert mask.tolist() == [True, False, True, True]
    values, has_failed = decode_base64(pa.array(["AQID", "", "AQ==", None]))
    assert (values.to_pylist(), has_failed) == ([b"\x01\x02\x03", b"", b"\x01", None], None)


def test_images_between_frames() -> None:
    tail = b',"source":{"db":"d"},"op":"u"}'
    heads = [
        b'{"before":null,"after":{"k":1}',
        b'{"before":{"k":1},"after":{"k":2}',
        b'{"before":{"k":2},"after":null',
    ]
    values = [*(head + tail for head in heads), b'{"after":{"k":3}}']
    framed_records = KnownFrames().find_framed(pa.array(values))
    assert framed_records is not None
    assert framed_records.indices.tolist() == [0, 1, 2]
    assert framed_records.images.to_pylist() == [b'{"k":1}', b'{"k":1}', b'{"k":2}', b'{"k":2}']
    assert framed_records.has_before.tolist() == [False, True, True]
    assert framed_records.has_after.tolist() == [True, True, False]
    expected = [[10, 14, 23, 30], [10, 17, 26, 33], [10, 17, 26, 30], None]
    for value, bounds in zip(values, expected, strict=True):
        last = max(value.find(tail), 0) or len(value) - 1
        places, has_head = find_heads(
            np.frombuffer(value + tail, np.uint8), np.zeros(1, np.int64), np.array([last])
        )
        assert (places.bounds[0].tolist() if has_head[0] else None) == bounds


def test_bytes_that_fit_a_pattern() -> None:
    pattern = byte_pattern(b"a17", {1: b"19", 2: b"09"})
    assert pattern.lowest.tobytes() == b"a10"
    assert pattern.spread.tolist() == [0, 8, 9]
    data = np.frombuffer(b"a10a07b17a99", np.uint8)
    assert pattern.fits(data, np.array([0, 3, 6, 9])).tolist() == [True, False, False, True]


def test_neighbours_on_a_curve() -> None:
    columns = [np.array([0, 1, 1, 0], np.uint64), np.array([0, 0, 1, 1], np.uint64)]
    first, last = hilbert_order(columns)
    assert (first.tolist(), last.tolist()) == ([0, 0, 0, 0], [0, 1, 2, 3])
    assert z_order(columns)[1].tolist() == [0, 2, 3, 1]


def test_rows_of_keys_with_two_columns() -> None:
    keys = pa.record_batch({"s": ["a", "a", "b"], "n": [1, 2, 2]})
    stored_rows = pa.record_batch({"s": ["a", "b", "c", "a"], "n": [2, 1, 2, 2]})
    of_rows, places = rows_with_keys(keys, stored_rows, ["s", "n"])
    assert (of_rows.tolist(), places.tolist()) == ([1, 1], [0, 3])


def test_combined_joined_and_collected_values() -> None:
    changes = SegmentChanges(np.arange(4), np.array([0, 2, 3]))
    column = pa.array([1, 2, 4, None])
    sums = combine_segments(column, changes, np.array([True, True, True, False]), sum_of_groups)
    assert isinstance(sums, pa.Array)
    assert sums.to_pylist() == [3, 4, None]
    texts = pa.array(["a,b", "b,c", "a", "a,d"])
    distinct = ColumnAggregate(function="listagg", is_distinct=True)
    joined_texts = join_texts(texts, SegmentChanges(np.arange(4), np.array([0, 2])), distinct)
    assert isinstance(joined_texts, pa.Array)
    assert joined_texts.to_pylist() == ["a,b,c", "a,d"]
    ops = np.array([ChangeOp.ADD, ChangeOp.RETRACT, ChangeOp.ADD], np.int8)
    collected_lists = collect_elements(
        pa.array([[1], [1], [1, 2]]),
        SegmentChanges(np.arange(3), np.array([0]), ops),
        ColumnAggregate(function="collect"),
    )
    assert isinstance(collected_lists, pa.Array)
    assert collected_lists.to_pylist() == [[1, 2]]


def sum_of_groups(values: pa.Array, bounds: Int64s) -> pa.Array:
    return pa.array(np.add.reduceat(values.to_numpy(), bounds[:-1]))


def test_changes_of_a_key_that_begins_with_a_delete() -> None:
    kinds = np.array(
        [RowKind.DELETE, RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_AFTER], np.int8
    )
    keys = KeySegments(
        batch=pa.record_batch({"g": [5, 4, 1, 2]}),
        row_indices=np.arange(4),
        starts=np.array([0, 2]),
        newest_row_indices=np.array([1, 3]),
        is_merged=np.array([True, True]),
    )
    group = SequenceGroup(sequence=("g",), columns=("v",))
    changes = grouped_changes(keys, kinds, MergeRules(aggregates={}, groups=(group,)))
    assert changes.plain.row_indices.tolist() == [0, 0, 1, 2, 3]
    assert changes.plain.starts.tolist() == [0, 3]
    assert changes.is_restart.tolist() == [True, False, False, False, False]
    assert changes.is_add.tolist() == [False, False, True, True, True]
    assert changes.in_sequence[group].tolist() == [True, True, False, True, True]


def test_partitions_of_keys_that_settle() -> None:
    changes = KeyChanges(
        key_numbers=np.array([0, 0, 1, 1]),
        partitions=np.array([8, 8, 8, 9]),
        is_removal=np.array([False, True, False, False]),
        partitions_before=np.array([7, NOWHERE]),
    )
    stays = place_changes(changes, OlderRowRule.STAYS)
    assert stays.change_indices.tolist() == [0, 1, 2, 3]
    assert stays.partitions.tolist() == [7, 7, 8, 8]
    assert stays.partitions_after.tolist() == [NOWHERE, 8]
    assert place_changes(changes, OlderRowRule.SKIPS).change_indices.tolist() == [2]


def test_the_last_bytes_of_texts_are_read_as_drawn() -> None:
    starts, lengths = np.array([0, 100, 200, 300]), np.array([45, 13, 6, 2])
    words = RecordedWords([])
    _mix_rest(np.zeros(4, np.uint64), cast(Words, words), starts, lengths)
    assert words.positions == [
        [32, 100], [], [], [40, 108, 200], [44, 112, 204, 300], [205, 301], [],
    ]  # fmt: skip


@dataclass
class RecordedWords:
    """Words that are all 0, and the positions that were read."""

    positions: list[list[int]]

    def __getitem__(self, positions: Int64s) -> Words:
        self.positions.append(positions.tolist())
        return np.zeros(len(positions), np.uint64)


def test_the_newest_rows_of_keys_in_buckets() -> None:
    keys = [5, 5, 5, 6, 7, 7]
    batch = pa.record_batch(
        {
            HASH_COLUMN: pa.array(keys, pa.int32()),
            BUCKET_CODE: pa.array([0, 0, 1, 0, 0, 1], pa.int32()),
            "_KEY_SNAPSHOT_INDEX": [1, 2, 1, 1, 1, 2],
            "_SEQUENCE_NUMBER": [0] * 6,
            IS_LIVE: [True, False, True, True, False, False],
            "k": keys,
        }
    )
    assert _newest_in_each_bucket(batch, 5).tolist() == [3, 2, 4, 5]


def test_values_that_are_folded_in_rounds() -> None:
    timed_type = pa.struct([("text", pa.string()), ("time", pa.int32())])
    maps = pa.array(
        [
            {"a": {"text": "x", "time": 1}},
            {"a": {"text": "y", "time": 3}, "b": {"text": "z", "time": 1}},
            {"a": {"text": "w", "time": 2}, "b": None},
        ],
        pa.map_(pa.string(), timed_type),
    )
    changes = SegmentChanges(np.arange(3), np.array([0]))
    merged_maps = merge_maps_by_time(
        maps, changes, ColumnAggregate(function="merge_map_with_keytime")
    )
    assert isinstance(merged_maps, pa.Array)
    assert merged_maps.to_pylist() == [[("a", {"text": "y", "time": 3})]]
    texts = pa.array([["a"], ["b", "c"], ["d"]])
    rounds = _in_rounds(
        NestedColumn.of_column(texts),
        SegmentChanges(np.arange(3), np.array([0, 2])),
        SegmentElements.merge_with,
        lambda present, _: present,
    )
    assert isinstance(rounds, pa.Array)
    assert rounds.to_pylist() == [["a", "b", "c"], ["d"]]


def test_the_versions_of_a_key() -> None:
    schema = pa.schema(
        [
            *SCHEMA, pa.field("start", pa.int64()), pa.field("end", pa.int64()),
            pa.field("is_current", pa.bool_()), pa.field("value", pa.string()),
        ]
    )  # fmt: skip
    columns = HistoryColumns(
        sequence="ts",
        valid_from="start",
        valid_to="end",
        is_current="is_current",
        untracked_columns=frozenset(),
    )
    layout = KeyValueLayout(schema=schema, key_names=("k", "start"))
    states = pa.record_batch(
        [
            [1, -1, 2, 3, 4], [0, 0, 0, 0, int(RowKind.DELETE)], [5] * 5, [10, 20, 20, 30, 40],
            pa.nulls(5, pa.int64()), pa.nulls(5, pa.bool_()), ["A", "B", "C", "C", None],
        ],
        schema=schema,
    )  # fmt: skip
    versions, to_hide = _timelines(states, HistoryRule(columns, layout, keeps_old_rows=False))
    shown = versions.select(["start", "end", "value"]).to_pydict()
    assert shown == {"start": [10, 20], "end": [20, 40], "value": ["A", "C"]}
    assert to_hide.select(["start", "value"]).to_pydict() == {
        "start": [20, 30],
        "value": ["C", "C"],
    }
