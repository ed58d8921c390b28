"""stream_app decodes the Debezium messages that it writes back into the same changes."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stream_app.app.cli.output.debezium_output import DebeziumConverter
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.message_format import FormatSetup
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.table.follow.changelog_follow import ChangelogBatch

MESSAGES = DebeziumConverter(table="/warehouse/shop.db/orders", keys=("k",))
Message = tuple[Any, dict[str, Any]]


def a_batch(*changes: tuple[str, int, str], is_full: bool = False) -> ChangelogBatch:
    names = ("rowkind", "k", "v")
    rows = pa.RecordBatch.from_pylist([dict(zip(names, values, strict=True)) for values in changes])
    return ChangelogBatch(rows=rows, snapshot_id=7, commit_time_ms=1000, is_full=is_full)


def messages_of(batch: ChangelogBatch, maker: DebeziumConverter = MESSAGES) -> list[Message]:
    keys, values = maker.keys_and_values(batch)
    return [
        (None if key is None else json.loads(key), json.loads(value))
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    ]


def short(batch: ChangelogBatch, maker: DebeziumConverter = MESSAGES) -> list[tuple[Any, ...]]:
    """The op, and the values before and after."""
    return [
        (value["op"], *((value[side] or {}).get("v") for side in ("before", "after")))
        for _, value in messages_of(batch, maker)
    ]


def test_an_envelope_names_the_source_of_its_change() -> None:
    [(key, value)] = messages_of(a_batch(("+I", 1, 'a "b"')))
    assert key == {"k": 1}
    assert value.pop("source").items() >= {
        ("connector", "stream_app"), ("db", "shop"), ("table", "orders"), ("snapshot_id", 7),
        ("ts_ms", 1000), ("snapshot", "false"),
    }  # fmt: skip
    assert value == {"before": None, "after": {"k": 1, "v": 'a "b"'}, "op": "c", "ts_ms": 1000}


def test_an_old_row_and_the_new_one_of_its_key_are_one_message() -> None:
    batch = a_batch(
        ("+I", 1, "a"), ("-U", 1, "a"), ("+U", 1, "b"), ("-U", 1, "b"), ("+U", 1, "c"),
        ("-D", 2, "z"),
    )  # fmt: skip
    assert short(batch) == [
        ("c", None, "a"), ("u", "a", "b"), ("u", "b", "c"), ("d", "z", None)
    ]  # fmt: skip


def test_half_an_update_becomes_a_message_of_its_own() -> None:
    batch = a_batch(("+U", 1, "a"), ("-U", 1, "x"), ("+U", 2, "b"), ("-U", 3, "c"))
    assert short(batch) == [
        ("c", None, "a"), ("d", "x", None), ("c", None, "b"), ("d", "c", None)
    ]  # fmt: skip


def test_rows_that_are_read_first_are_reads() -> None:
    batch = a_batch(("+I", 1, "a"), is_full=True)
    [(_, value)] = messages_of(batch)
    assert (value["op"], value["source"]["snapshot"]) == ("r", "true")


def test_without_a_key_there_are_messages_without_one() -> None:
    maker = DebeziumConverter(table="/t", keys=())
    assert [key for key, _ in messages_of(a_batch(("+I", 1, "a")), maker)] == [None]


@pytest.mark.parametrize("kind", ["+I", "-U", "+U", "-D"])
def test_a_batch_of_one_row(kind: str) -> None:
    assert len(messages_of(a_batch((kind, 1, "a")))) == 1


def test_our_own_reader_reads_every_type_back() -> None:
    columns = parse_columns(
        "k BIGINT, s STRING, b BYTES, d DECIMAL(38,10), f FLOAT, g DOUBLE, ok BOOLEAN, day DATE, "
        "t TIME(3), at TIMESTAMP(6), ltz TIMESTAMP_LTZ(6), tiny TINYINT"
    )
    full: dict[str, Any] = {
        "k": 2**62,
        "s": 'a\nb "q" 東京',
        "b": b"\x00\xff",
        "d": Decimal("1234567890123456789012345678.0123456789"),
        "f": 0.5,
        "g": -1e300,
        "ok": True,
        "day": dt.date(1969, 12, 31),
        "t": dt.time(1, 2, 3, 4000),
        "at": dt.datetime(2026, 1, 1, 12, 0, 0, 123456),  # noqa: DTZ001
        "ltz": dt.datetime(2026, 1, 1, 10, 0, tzinfo=dt.UTC),
        "tiny": -128,
    }
    nulls = {**dict.fromkeys(full), "k": 1}
    small = {**nulls, "k": 3, "d": Decimal("1E-10"), "g": 5e-324, "s": "", "b": b""}
    schema = arrow_schema(columns)
    rows = pa.RecordBatch.from_pylist([full, nulls, small, {**full, "k": 3}, small], schema)
    kinds = pa.array(["+I", "+I", "-U", "+U", "-D"])
    batch = ChangelogBatch(
        rows=rows.add_column(0, "rowkind", kinds),
        snapshot_id=1,
        commit_time_ms=0,
        is_full=False,
    )
    _, values = MESSAGES.keys_and_values(batch)
    options = {"decimal.handling.mode": "string", "time.precision.mode": "isostring"}
    reader = format_pipeline(
        "debezium-json",
        FormatSetup(
            columns=columns,
            arrow_schema=schema,
            primary_keys=("k",),
            options=options,
            keeps_update_before=True,
        ),
    )
    decoded_batch = reader.decode(pa.RecordBatch.from_arrays([values], ["value"]))
    assert decoded_batch.bad_records.to_pylist() == []
    changes = decoded_batch.changes.rows
    assert changes.column(VALUE_KIND).to_pylist() == [0, 0, 1, 2, 3]
    assert changes.select(schema.names).to_pylist() == rows.to_pylist()
