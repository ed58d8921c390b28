"""Measures decode of messages that nobody should send, at one size and at sixteen times that size.

    python -m bench.cdc.hostile

The bench prints for each kind the nanoseconds a byte at both sizes, and their ratio. The ratio is
about 1 if the time is linear in the bytes, and 16 if it is quadratic. A ratio above the goal is
marked. Python's garbage collector ignores imported modules, as in Spark's workers (`lean_imports`).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

import pyarrow as pa

from bench.goal import Goal
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import FormatSetup
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns
from tests.support.messages.growing_messages import GROWING, Growing

TIMES = 16
GOAL = 3.0
_RUNS = 3


def lines(runs: int = _RUNS) -> Iterator[str]:
    """Yield a table in Markdown."""
    yield f"| messages | ns a byte | {TIMES} times as much | ratio |"
    yield "| --- | ---: | ---: | ---: |"
    for kind, small_ns, large_ns in measure(runs):
        mark = "" if large_ns <= GOAL * small_ns else f" (goal {GOAL})"
        yield f"| {kind} | {small_ns:.0f} | {large_ns:.0f} | {large_ns / small_ns:.2f}{mark} |"


def measure(runs: int) -> Iterator[tuple[str, float, float]]:
    """Yield each kind with its nanoseconds per byte at both sizes."""
    gc.freeze()
    for kind, growing in GROWING.items():
        small_ns, large_ns = (
            min(_nanoseconds(growing, growing.size * times) for _ in range(runs))
            for times in (1, TIMES)
        )
        yield kind, small_ns, large_ns


def goals(runs: int) -> Iterator[Goal]:
    """Yield a goal for the worst kind."""
    ratio, kind = max((large_ns / small_ns, kind) for kind, small_ns, large_ns in measure(runs))
    yield Goal(f"hostile messages, {TIMES} times as much, worst of all: {kind}", ratio, GOAL)


def _nanoseconds(growing: Growing, size: int) -> float:
    columns = parse_columns(growing.columns)
    decoder = format_pipeline(
        "debezium-json",
        FormatSetup(
            columns=columns,
            arrow_schema=arrow_schema(columns),
            primary_keys=("id",),
            options=growing.options,
            keeps_update_before=True,
        ),
    )
    values = [value.encode() for value in growing.values(size)]
    rows = [
        {"topic": "t", "partition": 0, "offset": offset, "value": value}
        for offset, value in enumerate(values)
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)
    start_ns = time.process_time_ns()
    decoder.decode(batch)
    return (time.process_time_ns() - start_ns) / sum(map(len, values))


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
