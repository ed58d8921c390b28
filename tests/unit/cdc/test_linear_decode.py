"""The cost of decoding grows linearly with the bytes, in calls and in Arrow's memory."""

from __future__ import annotations

import sys
import time
from types import FrameType

import pyarrow as pa
import pytest

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.message_format import FormatSetup, MessageFormat
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from tests.support.messages.debezium_messages import a_format, messages
from tests.support.messages.growing_messages import ENVELOPES, GROWING, ROWS, Growing, in_envelopes

TIMES = 8
SMALL, GOAL = 2_000, 3.0
SLACK = 1.7
"""With 8 times the bytes, linear work grows 8 ×, n log n 11 to 12.1 ×, and quadratic work 64 ×."""


@pytest.mark.parametrize("kind", GROWING)
@pytest.mark.slow
def test_the_work_grows_as_the_messages_do(kind: str) -> None:
    growing = GROWING[kind]
    few, many = (work(growing, growing.size * times) for times in (1, TIMES))
    for base, larger in zip(few, many, strict=True):
        assert larger <= TIMES * SLACK * base, f"{few} → {many}"


READ_ALONE = (
    "texts in a list of numbers",
    "texts in a map of numbers",
    "values that are refused one by one",
)


@pytest.mark.parametrize("kind", READ_ALONE)
@pytest.mark.slow
def test_the_time_of_values_that_are_read_one_by_one_grows_as_they_do(kind: str) -> None:
    """Counts of calls do not show that one call scans all values for each value: so it is timed."""
    growing = GROWING[kind]
    few, many = (
        min(seconds(growing, size) for _ in range(3)) for size in (SMALL, SMALL * 2 * TIMES)
    )
    assert many <= 2 * TIMES * GOAL * few


def seconds(growing: Growing, size: int) -> float:
    """Return the processor seconds of one decoding."""
    decoder = a_format(growing.columns, options=growing.options)
    batch = messages(*growing.values(size))
    began = time.process_time()
    decoder.decode(batch)
    return time.process_time() - began


@pytest.mark.slow
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("format_name", ENVELOPES)
def test_the_work_of_other_formats_grows_as_their_messages_do(format_name: str, kind: str) -> None:
    growing = GROWING[kind]
    columns = parse_columns(growing.columns)
    few, many = (
        work_of(
            format_pipeline(
                format_name,
                FormatSetup(
                    columns=columns,
                    arrow_schema=arrow_schema(columns),
                    primary_keys=("id",),
                    options={},
                    keeps_update_before=True,
                ),
            ),
            messages(*in_envelopes(growing.values(size), format_name)),
        )
        for size in (growing.size // 10, growing.size // 10 * TIMES)
    )
    for base, larger in zip(few, many, strict=True):
        assert larger <= TIMES * SLACK * base, f"{few} → {many}"


def work(growing: Growing, size: int) -> tuple[int, int]:
    """Return `work_of` for Debezium's messages."""
    decoder = a_format(growing.columns, options=growing.options)
    return work_of(decoder, messages(*growing.values(size)))


def work_of(decoder: MessageFormat, batch: pa.RecordBatch) -> tuple[int, int]:
    """Return the calls of functions, C's included, and the bytes that Arrow has allocated."""
    pool, calls = pa.default_memory_pool(), 0
    before = pool.total_bytes_allocated()

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        decoder.decode(batch)
    finally:
        sys.setprofile(None)
    return calls, pool.total_bytes_allocated() - before
