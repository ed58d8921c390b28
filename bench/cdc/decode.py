"""Measures decode of JSON formats, by arrays and by machine code, beside a parse by pyarrow.json.

    python -m bench.cdc.decode [--messages N] [--repeat N] [--case NAME] [--profile]

The bench prints for each case the messages a second of a bare parse of the same bytes, and of both
decoders. Goals of decode time ÷ parse time for Debezium: ≤ 1.35 by arrays, ≤ 0.5 by machine code.
By machine code, a message of another format has a goal of 0.8 µs, and Debezium's changelog input
0.6 µs. The last column is the time of arrays ÷ that of a decode without the search for unknown and
missing columns. Debezium's messages have about 420 bytes. Times are the processor's, on one core,
so that other work changes them little. Continuous integration prints a short run.
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from bench.cdc.dialect_messages import PARSED, dialect_values
from bench.goal import Goal
from bench.processor_profile import print_profile
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.json_records.decoder_choice import (
    ARRAYS,
    AUTO,
    COMPILED,
    DECODER,
    compiled_layouts,
)
from stream_app.cdc.message_format import FormatSetup
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.data_type import parse_columns

COLUMNS = (
    "id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2), updated_at TIMESTAMP(6), "
    "dt STRING NOT NULL"
)
GOAL = 1.35
GOAL_COMPILED = 0.5
GOAL_MICROS = 0.8
GOAL_MICROS_OF_DEBEZIUM = 0.6
BLIND = {"unknown-columns": "ignore", "missing-columns": "ignore"}


@dataclass(frozen=True)
class Case:
    name: str
    updates: float = 0.6
    deletes: float = 0.05
    keeps_update_before: bool = True
    decimals: str = "precise"
    has_envelope: bool = False
    flat: bool = False
    format: str = "debezium-json"
    options: dict[str, str] = field(default_factory=dict)

    @property
    def is_of_dialect(self) -> bool:
        """Whether the format is not Debezium's, and has another goal."""
        return self.format in PARSED


CASES = (
    Case("changelog input"),
    Case("no changelog", keeps_update_before=False),
    Case("inserts only", updates=0, deletes=0),
    Case("decimal strings", decimals="string", options={"decimal.handling.mode": "string"}),
    Case("schema envelope", has_envelope=True),
    Case("flattened inserts", updates=0, deletes=0, flat=True),
    *(Case(name, format=name) for name in PARSED),
)


def shop_values(case: Case, count: int) -> list[bytes]:
    """Return change events of a shop's orders, always the same for a case."""
    if case.is_of_dialect:
        return dialect_values(case.format, count)
    rng = random.Random(7)
    schema = json.dumps(_schema(case), separators=(",", ":"))
    return [_event(case, rng, number, schema) for number in range(count)]


def _event(case: Case, rng: random.Random, number: int, schema: str) -> bytes:
    draw = rng.random()
    before, after = _row(case, rng, number), _row(case, rng, number)
    if case.flat:
        return json.dumps(after | {"__op": "c"}, separators=(",", ":")).encode()
    op = "u" if draw < case.updates else "d" if draw < case.updates + case.deletes else "c"
    source = {
        "version": "3.7.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1795232574158,
        "snapshot": "false",
        "db": "shop",
        "schema": "public",
        "table": "orders",
        "txId": 744 + number,
        "lsn": 22327040 + number,
    }
    event = {
        "before": None if op == "c" else before,
        "after": None if op == "d" else after,
        "source": source,
        "op": op,
        "ts_ms": 1795232574433,
    }
    text = json.dumps(event, separators=(",", ":"))
    return (f'{{"schema":{schema},"payload":{text}}}' if case.has_envelope else text).encode()


def _row(case: Case, rng: random.Random, number: int) -> dict[str, object]:
    cents = rng.randrange(-(10**9), 10**10)
    unscaled_bytes = cents.to_bytes((cents.bit_length() + 8) // 8, "big", signed=True)
    text = f"{cents // 100}.{cents % 100:02}"
    return {
        "id": number,
        "customer": f"customer-{rng.randrange(99999):05}",
        "amount": base64.b64encode(unscaled_bytes).decode() if case.decimals == "precise" else text,
        "updated_at": 1709251199123456 + rng.randrange(10**12),
        "dt": f"2024-03-{rng.randrange(1, 29):02}",
    }


def _schema(case: Case) -> dict[str, object]:
    decimal: dict[str, object] = {"type": "string"}
    if case.decimals == "precise":
        name = "org.apache.kafka.connect.data.Decimal"
        decimal = {"type": "bytes", "name": name, "parameters": {"scale": "2"}}
    fields = [
        {"type": "int64", "field": "id"},
        {"type": "string", "field": "customer"},
        {**decimal, "field": "amount"},
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "updated_at"},
        {"type": "string", "field": "dt"},
    ]
    images = [{"type": "struct", "fields": fields, "field": name} for name in ("before", "after")]
    return {"type": "struct", "fields": images, "name": "shop.public.orders.Envelope"}


def messages_of(values: list[bytes]) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.array(["shop.public.orders"] * count),
        pa.array([0] * count, pa.int32()),
        pa.array(range(count), pa.int64()),
        pa.nulls(count, pa.timestamp("us", "UTC")),
        pa.nulls(count, pa.binary()),
        pa.array(values, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def parse_only(values: pa.Array, name: str = "debezium-json") -> Callable[[], pa.Table]:
    """Return the limit: a parse of all values, joined beforehand, into the same columns."""
    lines = pc.binary_join_element_wise(values, b"\n", b"").buffers()[2]
    if name in PARSED:
        return _parse(lines, PARSED[name])
    row = pa.struct(
        [
            ("id", pa.int64()),
            ("customer", pa.string()),
            ("amount", pa.string()),
            ("updated_at", pa.int64()),
            ("dt", pa.string()),
        ]
    )
    if values[0].as_py().startswith(b'{"id"'):
        return _parse(lines, pa.schema([*row, ("__op", pa.string())]))
    fields = [("before", row), ("after", row), ("op", pa.string())]
    is_enveloped = values[0].as_py().startswith(b'{"schema"')
    schema = pa.schema([("payload", pa.struct(fields))] if is_enveloped else fields)
    return _parse(lines, schema)


def _parse(lines: pa.Buffer, schema: pa.Schema) -> Callable[[], pa.Table]:
    return lambda: pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def seconds(work: Callable[[], object]) -> float:
    start_s = time.process_time()
    work()
    return time.process_time() - start_s


@dataclass(frozen=True)
class Measured:
    """The processor seconds of a case, the shortest of several turns.

    Attributes:
        parsed_s, arrays_s: the seconds of the bare parse, and of the decoder by arrays.
        blind_s: the seconds of arrays without the search for unknown and missing columns.
        compiled_s: the seconds of machine code, or None without the extra `compiled`.
    """

    case: Case
    messages: int
    size: float
    parsed_s: float
    arrays_s: float
    blind_s: float
    compiled_s: float | None

    @property
    def ratio(self) -> float:
        return self.arrays_s / self.parsed_s

    @property
    def compiled_ratio(self) -> float | None:
        return None if self.compiled_s is None else self.compiled_s / self.parsed_s

    @property
    def micros(self) -> float | None:
        """The microseconds of machine code for a message."""
        return None if self.compiled_s is None else self.compiled_s / self.messages * 1e6

    def markdown(self) -> str:
        compiled_text = "– | – | –"
        if self.compiled_s is not None:
            compiled_text = (
                f"{self.messages / self.compiled_s / 1e3:,.0f} "
                f"| {self.compiled_s / self.parsed_s:.2f} "
                f"| {self.compiled_s / self.messages * 1e6:.2f}"
            )
        return (
            f"| {self.case.name} | {self.size / self.messages:.0f} "
            f"| {self.messages / self.parsed_s / 1e3:,.0f} "
            f"| {self.messages / self.arrays_s / 1e3:,.0f} | {self.ratio:.2f} "
            f"| {compiled_text} | {self.arrays_s / self.blind_s:.2f} |"
        )


def measure(case: Case, count: int, repeat: int, *, profile: bool = False) -> Measured:
    """Measure both decoders beside the parse, in turns."""
    messages = messages_of(shop_values(case, count))
    columns = parse_columns(COLUMNS)
    option_sets: list[dict[str, str]] = [{DECODER: ARRAYS}, {DECODER: ARRAYS, **BLIND}]
    if compiled_layouts(AUTO) is not None:
        option_sets.append({DECODER: COMPILED})
    decoders = [
        format_pipeline(
            case.format,
            FormatSetup(
                columns=columns,
                arrow_schema=arrow_schema(columns),
                primary_keys=("dt", "id"),
                options=case.options | added_options,
                keeps_update_before=case.keeps_update_before,
            ),
        )
        for added_options in option_sets
    ]
    parse = parse_only(messages.column("value"), case.format)
    for decoder in decoders:
        assert decoder.decode(messages).bad_records.num_rows == 0
    # In turns, so that a busy machine slows all.
    arms: list[Callable[[], object]] = [
        parse,
        *(partial(decoder.decode, messages) for decoder in decoders),
    ]
    times = [[seconds(work) for work in arms] for _ in range(repeat)]
    if profile:
        print_profile(partial(decoders[-1].decode, messages))
    parsed_s, arrays_s, blind_s, *compiled_s = (
        min(seconds) for seconds in zip(*times, strict=True)
    )
    size = messages.column("value").nbytes
    return Measured(case, count, size, parsed_s, arrays_s, blind_s, *compiled_s or [None])


def lines(count: int, repeat: int, names: Sequence[str] = ()) -> Iterator[str]:
    """Yield the table of `docs/performance/decoding.md`."""
    pa.set_cpu_count(1)
    yield (
        "| messages | bytes each | parse, k/s | arrays, k/s | ÷ parse "
        "| compiled, k/s | ÷ parse | µs each | arrays ÷ blind |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for case in CASES:
        if not names or case.name in names:
            yield measure(case, count, repeat).markdown()
    yield (
        f"Goals of Debezium: arrays ÷ parse ≤ {GOAL}, compiled ÷ parse ≤ {GOAL_COMPILED}, "
        f"of other formats ≤ {GOAL_MICROS} µs. "
        "Blind: a decode that looks for no unknown columns."
    )


def goals(count: int, repeat: int) -> Iterator[Goal]:
    """Yield goals for both decoders beside the parse, and for a message by machine code."""
    pa.set_cpu_count(1)
    for case in CASES:
        result = measure(case, count, repeat)
        if not case.is_of_dialect:
            if not case.flat:
                yield Goal(f"decode by arrays ÷ parse, {case.name}", result.ratio, GOAL)
            name = f"decode by machine code ÷ parse, {case.name}"
            yield Goal(name, result.compiled_ratio, GOAL_COMPILED)
        if case.is_of_dialect or case == CASES[0]:
            bound = GOAL_MICROS if case.is_of_dialect else GOAL_MICROS_OF_DEBEZIUM
            yield Goal(f"decode, µs a message, {case.name}", result.micros, bound)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--case", choices=[case.name for case in CASES])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.profile:
        for case in CASES:
            if options.case in (None, case.name):
                measure(case, options.messages, options.repeat, profile=True)
    for line in lines(options.messages, options.repeat, [options.case] if options.case else []):
        print(line, flush=True)


if __name__ == "__main__":
    main()
