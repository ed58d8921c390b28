"""Decoders handle empty and bad batches, huge values, order and pickling."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA, MESSAGE_SCHEMA, schema_of_changes
from stream_app.cdc.message_format import FormatSetup
from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from tests.support.messages.debezium_messages import a_format, event, messages, reasons_of, rows_of

COLUMNS = "id BIGINT, v STRING"


def insert(key: int, text: str = '"x"') -> str:
    return event(after=f'{{"id":{key},"v":{text}}}')


@pytest.mark.parametrize(
    ("values", "rows", "bad_count", "skipped_count"),
    [
        pytest.param([], 0, 0, 0, id="empty"),
        pytest.param([None] * 3, 0, 0, 3, id="all tombstones"),
        pytest.param(["{", "[]", ""], 0, 3, 0, id="all bad"),
        pytest.param([None, "{", insert(1)], 1, 1, 1, id="one of each"),
    ],
)
def test_counts_and_schemas(
    values: list[str | None], rows: int, bad_count: int, skipped_count: int
) -> None:
    decoded_batch = a_format(COLUMNS).decode(messages(*values))
    assert decoded_batch.changes.rows.num_rows == rows
    assert decoded_batch.changes.rows.schema == schema_of_changes(
        arrow_schema(parse_columns(COLUMNS))
    )
    decoded_batch.changes.rows.validate(full=True)
    assert decoded_batch.changes.message_indices.dtype == "int32"
    assert decoded_batch.bad_records.num_rows == bad_count
    assert decoded_batch.bad_records.schema == BAD_RECORD_SCHEMA
    assert decoded_batch.skipped_count == skipped_count


def test_a_bad_record_keeps_where_it_came_from() -> None:
    row = {
        "topic": "shop",
        "partition": 3,
        "offset": 2**40,
        "timestamp": 1_700_000_000_000_000,
        "key": b"\xff",
        "value": b"\xfe{",
    }
    batch = pa.RecordBatch.from_pylist([row], schema=MESSAGE_SCHEMA)
    (bad_record,) = a_format(COLUMNS).decode(batch).bad_records.to_pylist()
    assert (bad_record["topic"], bad_record["partition"], bad_record["offset"]) == (
        "shop",
        3,
        2**40,
    )
    assert (bad_record["key"], bad_record["value"]) == (b"\xff", b"\xfe{")
    assert bad_record["timestamp"].timestamp() == 1_700_000_000
    assert bad_record["reason"] == "is not UTF-8: invalid start byte at byte 0"


@pytest.mark.slow
def test_huge_value_and_many_slices() -> None:
    """More rows and bytes than one slice holds, with a bad record here and there."""
    huge = "y" * (40 << 20)
    values = [insert(key) for key in range(70_000)]
    values[100] = insert(100, f'"{huge}"')
    values[40_000] = '{"op":"c","after":{"id":40000,'
    values[69_999] = insert(69_999, "[1]")
    decoded_batch = a_format(COLUMNS).decode(messages(*values))
    assert list(reasons_of(decoded_batch)) == [40_000]
    keys = decoded_batch.changes.rows.column("id").to_pylist()
    assert keys == [key for key in range(70_000) if key != 40_000]
    assert decoded_batch.changes.message_indices.tolist() == keys
    assert decoded_batch.changes.rows.column("v")[100].as_py() == huge
    assert decoded_batch.changes.rows.column("v")[-1].as_py() == "[1]"


def test_deep_nesting_in_an_ignored_field() -> None:
    """The same levels are too many as in a column of the table, and beside any neighbour."""
    deep = "[" * 100_000 + "]" * 100_000
    odd = f'{{"op":"c","after":{{"id":2,"w":{deep}}}}}'
    for texts in ([insert(1), odd], [odd, insert(1), "{}}"], [odd]):
        decoded_batch = a_format(COLUMNS).decode(messages(*texts))
        assert [row[2] for row in rows_of(decoded_batch)] == [1] * (len(texts) > 1)
        reason = reasons_of(decoded_batch)[texts.index(odd)]
        assert reason == "is nested too deeply: more than 128 levels"


def test_values_that_no_longer_look_like_the_first_ones() -> None:
    """The decoder learns another shape when that of the first records does not hold."""
    decoder = a_format("id BIGINT, v DECIMAL(5,2)")
    first = decoder.decode(messages(*(insert(key, '"Aw=="') for key in range(100))))
    later = decoder.decode(messages(*(insert(key, "0.03") for key in range(100))))
    assert rows_of(first) == rows_of(later)


def test_sliced_message_batches() -> None:
    batch = messages(*(insert(key) for key in range(10)), None, "{")
    decoded_batch = a_format(COLUMNS).decode(batch.slice(4))
    assert [row[:3] for row in rows_of(decoded_batch)] == [
        (position, "+I", position + 4) for position in range(6)
    ]
    assert decoded_batch.skipped_count == 1
    assert list(reasons_of(decoded_batch)) == [11]


def test_a_format_can_be_pickled() -> None:
    decoder = a_format(COLUMNS)
    batch = messages(insert(1))
    decoder.decode(batch)
    copy = pickle.loads(pickle.dumps(decoder))
    assert rows_of(copy.decode(batch)) == rows_of(decoder.decode(batch))


def test_unknown_format() -> None:
    with pytest.raises(UsageError, match="debezium-jsn") as caught:
        format_pipeline(
            "debezium-jsn",
            FormatSetup(
                columns=parse_columns(COLUMNS),
                arrow_schema=arrow_schema(parse_columns(COLUMNS)),
                primary_keys=("id",),
                options={},
                keeps_update_before=False,
            ),
        )
    assert "did you mean 'debezium-json'?" in caught.value.fix
