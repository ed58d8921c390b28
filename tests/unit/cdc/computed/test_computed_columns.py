"""Functions of computed columns agree with plain Python, also on metadata of real messages."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from collections.abc import Callable
from decimal import Decimal
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.cdc.computed.column_definition import parse_definition
from stream_app.cdc.computed.column_functions import (
    COLUMN_FUNCTIONS,
    AppliedFunction,
    applied_function,
)
from stream_app.cdc.debezium.debezium_origins import change_times
from stream_app.cdc.pipeline_steps.change_filter import KnownColumns, filter_changes
from stream_app.format.arrow_schema import arrow_type
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import STRING, VARIANT, DataType, parse_data_type
from tests.support.messages.debezium_messages import captured_messages, fixture_lines, messages

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)
_MICRO = dt.timedelta(microseconds=1)
FAILS = "fails"
TIMESTAMP, BIGINT = parse_data_type("TIMESTAMP(6)"), parse_data_type("BIGINT")
# Python's dates begin in the year 1, and its years have no leading zeros on every platform.
instants = st.datetimes(_EPOCH.replace(year=1000), _EPOCH.replace(year=9999))
texts = st.text(st.characters(codec="utf-8"), max_size=12)


def a_function(call: str, column_type: DataType) -> AppliedFunction:
    return applied_function(parse_definition(f"x={call}"), column_type, arrow_type)


def outcomes(call: str, column_type: DataType, values: list[Any]) -> list[Any]:
    """Return the function's result for each value; `FAILS` where it fails."""
    column = pa.array(values, arrow_type(column_type))
    # A slice begins behind the start of its buffers.
    for part in (column, pa.concat_arrays([column.slice(0, 1), column]).slice(1)):
        computed_values, has_failed = a_function(call, column_type).compute(part)
        results = computed_values.to_pylist()
        if has_failed is not None:
            results = [
                FAILS if is_failure else result
                for is_failure, result in zip(has_failed, results, strict=True)
            ]
    return results


def of_each(values: list[Any], model: Callable[[Any], Any]) -> list[Any]:
    """The model's outcome for each value."""

    def outcome(value: Any) -> Any:
        try:
            return None if value is None else model(value)
        except ValueError:
            return FAILS

    return [outcome(value) for value in values]


@given(st.lists(st.none() | instants, min_size=1))
def test_fields_of_a_timestamp(values: list[Any]) -> None:
    for field in ("year", "month", "day", "hour", "minute", "second"):
        results = outcomes(f"{field}(c)", TIMESTAMP, values)
        assert results == of_each(values, attrgetter(field))


@given(st.lists(st.none() | instants, min_size=1))
def test_date_format_writes_times_by_its_pattern(values: list[Any]) -> None:
    for pattern, model in (
        ("yyyy-MM-dd", "%Y-%m-%d"),
        ("yyyyMMddHH", "%Y%m%d%H"),
        ("yyyy/MM/dd HH:mm", "%Y/%m/%d %H:%M"),
        ("HH:mm:ss.SSSSSS", "%H:%M:%S.%f"),
        ("YYYY-'W'ww EEE", "%G-W%V %a"),
        ("yy D hh a MMM", "%y {day} %I %p %b"),
    ):
        results = outcomes(f"date_format(c, {pattern})", TIMESTAMP, values)

        def shown(time: dt.datetime, model: str = model) -> str:
            return time.strftime(model).format(day=time.timetuple().tm_yday)

        assert results == of_each(values, shown)


@given(st.lists(st.none() | instants, min_size=1), st.sampled_from([0, 3, 6]))
def test_numbers_and_texts_give_the_same_time_as_timestamps(
    values: list[Any], precision: int
) -> None:
    unit = 10 ** (6 - precision)
    counts = [None if time is None else (time - _EPOCH) // _MICRO // unit for time in values]
    cut = [None if n is None else _EPOCH + n * unit * _MICRO for n in counts]
    iso = [None if time is None else time.isoformat() for time in cut]
    pattern = "yyyy-MM-dd HH:mm:ss.SSSSSS"
    expected = outcomes(f"date_format(c, {pattern})", TIMESTAMP, cut)
    assert outcomes(f"date_format(c, {pattern}, {precision})", BIGINT, counts) == expected
    as_text = [None if n is None else str(n) for n in counts]
    assert outcomes(f"date_format(c, {pattern}, {precision})", STRING, as_text) == expected
    assert outcomes(f"date_format(c, {pattern})", STRING, iso) == expected


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)), st.integers(1, 2**31 - 1))
def test_truncate_integers(values: list[Any], width: int) -> None:
    def model(value: int) -> int:
        truncated_value = value - value % width
        if truncated_value < -(2**63):
            raise ValueError
        return truncated_value

    assert outcomes(f"truncate(c, {width})", BIGINT, values) == of_each(values, model)


@given(st.lists(st.none() | st.integers(1 - 10**38, 10**38 - 1)), st.integers(1, 2**31 - 1))
def test_truncate_decimals(unscaled_values: list[Any], width: int) -> None:
    def model(value: int) -> Decimal:
        truncated_value = value - value % width
        if truncated_value <= -(10**38):
            raise ValueError
        return as_decimal(truncated_value)

    def as_decimal(value: int) -> Decimal:
        digits = tuple(int(digit) for digit in str(abs(value)))
        return Decimal((int(value < 0), digits, -7))

    values = [None if number is None else as_decimal(number) for number in unscaled_values]
    truncated_values = outcomes(f"truncate(c, {width})", parse_data_type("DECIMAL(38, 7)"), values)
    assert truncated_values == of_each(unscaled_values, model)


@given(st.lists(st.none() | texts), st.integers(0, 6), st.none() | st.integers(1, 6))
def test_substring_returns_characters_of_a_text(
    values: list[Any], start: int, more: int | None
) -> None:
    end = None if more is None else start + more

    def model(text: str) -> str:
        if len(text) < (start if end is None else end):
            raise ValueError
        return text[start:end]

    call = f"substring(c, {start})" if end is None else f"substring(c, {start}, {end})"
    assert outcomes(call, STRING, values) == of_each(values, model)


@given(st.lists(st.none() | texts))
def test_trim_removes_blanks_at_both_ends(values: list[Any]) -> None:
    blanks = "".join(map(chr, range(33)))
    assert outcomes("trim(c)", STRING, values) == of_each(values, lambda text: text.strip(blanks))


LETTERS = "abcXYZ éßŉΣσςάΐﬁİıж中ǆ"


@given(st.lists(st.none() | st.text(LETTERS, max_size=8)))
def test_upper_and_lower(values: list[Any]) -> None:
    assert outcomes("upper(c)", STRING, values) == of_each(values, str.upper)
    assert outcomes("lower(c)", STRING, values) == of_each(values, str.lower)


@pytest.mark.parametrize("name", COLUMN_FUNCTIONS)
def test_each_function_goes_to_the_tasks(name: str) -> None:
    arguments = {
        "cast": "1, INT", "now": "", "date_format": "c, yyyy", "substring": "c, 1",
        "truncate": "c, 1", "variant_get": "c, $.a, INT",
    }.get(name, "c")  # fmt: skip
    function = a_function(f"{name}({arguments})", VARIANT if name == "variant_get" else STRING)
    assert pickle.loads(pickle.dumps(function)).result_type == function.result_type


@pytest.mark.parametrize(
    "file", ["debezium_pg_plain", "debezium_pg_schema", "debezium_mariadb_plain"]
)
def test_change_times_of_real_messages(file: str) -> None:
    lines = fixture_lines(file)
    for topic in {line["topic"] for line in lines}:
        times = change_times(captured_messages(file, topic)).cast(pa.int64()).to_pylist()
        values = [json.loads(line["value"] or "{}") for line in lines if line["topic"] == topic]
        rows = [value.get("payload", value) for value in values]
        assert times == [row.get("source", {}).get("ts_ms") for row in rows]


def test_a_message_without_a_time_harms_no_other() -> None:
    template = '{"source":{"ts_ms":%d},"op":"c"}'
    odd = ['{"source":{"ts_ms":"x"}}', "no json", None, '{"source":{"ts_ms":99999999999999999999}}']
    batch = messages(*(template % 7 for _ in range(40)), *odd, template % 8, '{"__source_ts_ms":9}')
    times = change_times(batch).cast(pa.int64()).to_pylist()
    assert times == [7] * 40 + [None] * 4 + [8, 9]
    assert len(change_times(batch.slice(0, 0))) == 0


@given(st.data())
def test_filtered_rows_give_the_state_of_a_filtered_table(data: st.DataObject) -> None:
    """The table has the row if its last state passes, with whole images or the newest alone."""
    states = data.draw(st.lists(st.sampled_from([None, True, False]), min_size=1, max_size=8))
    for known_columns in (KnownColumns.IMAGES, KnownColumns.NEWEST):
        has_before = [data.draw(st.booleans()) for _ in states]
        is_stored, row = False, None
        for state, whole in zip(states, has_before, strict=True):
            kinds, passes, pair = _change(row, state, whole)
            row = state
            if kinds:
                is_stored = _applied_to(is_stored, kinds, passes, pair, known_columns)
            assert is_stored == (row is True)


def _change(
    old: bool | None, new: bool | None, whole: bool
) -> tuple[list[RowKind], list[bool], list[bool]]:
    """The rows of a change from one state to another; None is not a row."""
    if old is None:
        return ([], [], []) if new is None else ([RowKind.INSERT], [new], [False])
    if new is None:
        return [RowKind.DELETE], [old], [False]
    if whole:
        return [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER], [old, new], [True, False]
    return [RowKind.UPDATE_AFTER], [new], [False]


def _applied_to(
    is_stored: bool,
    kinds: list[RowKind],
    passes: list[bool],
    pair: list[bool],
    known_columns: KnownColumns,
) -> bool:
    changes = filter_changes(
        np.array(kinds, np.int8), np.array(pair), np.array(passes), known_columns
    )
    for kind in changes.kinds[changes.is_kept]:
        is_stored = RowKind(kind) in (RowKind.INSERT, RowKind.UPDATE_AFTER)
    return is_stored
