"""The decoder treats a whole record alike beside any others, in a table of any columns.

`test_neighbours` varies the values of one column. Here the records' fields, ops, images, sources
and keys vary, and the tables have columns named as Debezium's own fields are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch
from stream_app.cdc.message_format import MessageFormat
from stream_app.model.schema.data_type import parse_columns
from tests.support.messages.debezium_messages import a_format, reasons_of, rows_of

TABLES = (
    ("id BIGINT, v STRING, n INT", "id"),
    ("dt STRING, id BIGINT, v STRING NOT NULL, n INT", "dt,id"),
    ("id BIGINT, v STRING, n INT", ""),
    ("id BIGINT, d DECIMAL(10,2), ts TIMESTAMP(3), v STRING, b BYTES", "id"),
    ("id STRING, v STRING, __op STRING", "id"),
    ("id BIGINT, v STRING, __deleted BOOLEAN", "id"),
    ("id BIGINT, __table STRING, v STRING, __db STRING", "id"),
    ("id BIGINT, op STRING, source STRING, v STRING", "id"),
    ("id BIGINT, op STRING, after STRING, v STRING", "id"),
    ("id BIGINT, schema STRING, payload STRING, v STRING", "id"),
    ("id BIGINT, op STRING, message STRING, v STRING", ""),
    ("ts_ms BIGINT, id BIGINT, v STRING", "ts_ms"),
)
VALUES = (
    "1", "2", '"1"', '"x"', "null", "true", "1.5", "1e2", "-0", "3000000000", "NaN", "[1]", "{}",
    '"__debezium_unavailable_value"', '{"scale":0,"value":"AQ=="}', '"AQ=="', '"2024-01-01"',
)  # fmt: skip
SOURCES = (
    '{"connector":"postgresql","db":"d","schema":"s","table":"t"}', '{"lsn":1}', "null", '"x"',
    '{"connector":"mysql","db":"d","table":"t"}', '{"connector":"mysql","db":null,"table":"u"}',
    '{"connector":1,"table":"t"}',
)  # fmt: skip
KEYS = (
    '{"id":1}', '{"id":"1"}', '{"dt":"a","id":1}', None, "1", "{}", '{"id":[1]}', "",
    '{"schema":{},"payload":{"id":1}}', '{"schema":{"a":1},"payload":null}',
    '{"payload":{"id":1},"schema":{}}', ' {"id":1}', '{"schema":{},"payload":{"id":1}} ',
)  # fmt: skip
MARKERS = (
    '{"ts_ms":1}', "null", "[]", "{}", '{"ddl":"x","databaseName":"d"}', '{"id":1,"op":"m"}',
    '{"status":"END","id":"1","event_count":1,"data_collections":[]}',
    '{"op":"m","ts_ms":1,"source":{},"message":{}}',
)  # fmt: skip
OPTIONS: dict[str, tuple[str, ...]] = {
    "replica-identity": ("auto", "full", "default"),
    "unknown-columns": ("warn", "ignore", "quarantine"),
    "missing-columns": ("warn", "ignore", "quarantine"),
    "decimal.handling.mode": ("precise", "string"),
}
Message = tuple[str | None, str]


def obj(fields: list[str]) -> str:
    return f"{{{','.join(fields)}}}"


def row(rng: random.Random, names: tuple[str, ...]) -> list[str]:
    fields = [
        f'"{name}":' + rng.choice(VALUES[:2] if name in ("id", "ts_ms") else VALUES)
        for name in names
        if rng.random() < 0.9
    ]
    fields += ['"zz":1'] * (rng.random() < 0.15) + fields[:1] * (rng.random() < 0.03)
    return rng.sample(fields, len(fields))


def envelope(rng: random.Random, names: tuple[str, ...]) -> str:
    images = {name: obj(row(rng, names)) for name in ("before", "after")}
    parts = [
        f'"{name}":' + (image if rng.random() < 0.7 else rng.choice(["null", "{}"]))
        for name, image in images.items()
        if rng.random() < 0.9
    ]
    parts += [f'"source":{rng.choice(SOURCES)}'] * (rng.random() < 0.9)
    op = rng.choice(['"c"', '"u"', '"d"'] * 3 + ['"r"', '"m"', '"x"', "null", "1", '"cc"'])
    return obj([*parts, f'"op":{op}'])


def flat(rng: random.Random, names: tuple[str, ...]) -> str:
    fields = row(rng, names)
    op = rng.choice(['"c"', '"u"', '"d"', '"r"', "null", '"x"', "1"])
    fields += [f'"__op":{op}'] * (rng.random() < 0.7)
    deleted_text = rng.choice(['"true"', '"false"', "null", "true"])
    fields += [f'"__deleted":{deleted_text}'] * (rng.random() < 0.3)
    table = rng.choice(['"t"', "null", "5"])
    fields += [f'"__db":"d","__table":{table}'] * (rng.random() < 0.4)
    return obj(fields)


def message(rng: random.Random, names: tuple[str, ...]) -> Message:
    make = rng.choice([envelope, flat, flat, lambda *_: rng.choice(MARKERS)])
    value = make(rng, names)
    if rng.random() < 0.15:
        value = f'{{"schema":{{"type":"struct","fields":[]}},"payload":{value}}}'
    return rng.choice([*KEYS, '{"id":1}']), value


def batch(messages: list[Message]) -> pa.RecordBatch:
    raw = [[text if text is None else text.encode() for text in message] for message in messages]
    rows = [
        {"topic": "t", "partition": 0, "offset": index, "key": key, "value": value}
        for index, (key, value) in enumerate(raw)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def outcomes(decoded_batch: DecodedBatch) -> dict[int, Any]:
    """Return each message's rows or its reason; none for a skipped message."""
    assert not decoded_batch.decoder_error_count
    outcomes: dict[int, Any] = dict(reasons_of(decoded_batch))
    for position, *cells in rows_of(decoded_batch):
        outcomes[position] = (*outcomes.get(position, ()), tuple(cells))
    return outcomes


def sums(decoded_batch: list[DecodedBatch]) -> tuple[int, set[str], dict[Any, int]]:
    """Return the skipped messages of several batches, the tables, and the records by column."""
    columns: dict[Any, int] = {}
    for part in decoded_batch:
        for column, sighting in part.drift.items():
            columns[column] = columns.get(column, 0) + sighting.record_count
    tables = {name for part in decoded_batch for name in part.tables}
    return sum(part.skipped_count for part in decoded_batch), tables, columns


def decoders(rng: random.Random, columns: str, keys: str) -> Iterator[MessageFormat]:
    """Yield decoders of the same format, each without a shape from earlier records."""
    options = {name: rng.choice(values) for name, values in OPTIONS.items()}
    options |= {"unproven-keys": "quarantine", "truncate": "ignore"}
    keeps = rng.random() < 0.5
    while True:
        yield a_format(
            columns, keys.split(",") if keys else (), options=options, keeps_update_before=keeps
        )


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.slow
def test_a_record_depends_on_no_other(seed: int) -> None:
    rng = random.Random(seed)
    columns, keys = TABLES[seed % len(TABLES)]
    formats, names = decoders(rng, columns, keys), parse_columns(columns).names
    kinds = [message(rng, names) for _ in range(rng.choice([2, 5, 20]))]
    chosen = rng.choices(kinds, k=rng.choice([2, 10, 100]))
    together = next(formats).decode(batch(chosen))
    alone = {record: next(formats).decode(batch([record])) for record in set(chosen)}
    results = outcomes(together)
    for index, record in enumerate(chosen):
        assert results.get(index) == outcomes(alone[record]).get(0), record
    assert sums([together]) == sums([alone[record] for record in chosen])
