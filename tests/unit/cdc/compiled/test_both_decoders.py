"""Machine code and arrays decode all messages alike."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.column_drift import Sighting
from stream_app.cdc.json_records.decoder_choice import ARRAYS, COMPILED, DECODER
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    fixture_lines,
    messages,
    reasons_of,
    rows_of,
)
from tests.support.messages.graded_messages import graded_messages
from tests.support.messages.growing_messages import GROWING
from tests.support.messages.hostile_messages import COLUMNS as HOSTILE_COLUMNS
from tests.support.messages.hostile_messages import OPTIONS as HOSTILE_OPTIONS
from tests.support.messages.hostile_messages import WRAPPINGS, Wrapping, hostile_messages
from tests.unit.cdc.compiled.shop_messages import COLUMNS, NAMES, flat_message, message, mutated

pytest.importorskip("numba")

KEY = '{"dt":"","id":0}'
"""Proves the row of each change."""
SAFE = {"unproven-keys": "quarantine", "truncate": "ignore"}
MODES: tuple[dict[str, str], ...] = (
    {},
    {"decimal.handling.mode": "string"},
    {"decimal.handling.mode": "double"},
    {"unavailable.value.placeholder": "hex:01"},
    {"unknown-columns": "quarantine", "missing-columns": "quarantine"},
    {"replica-identity": "default"},
)


def everything(decoded_batch: DecodedBatch) -> tuple[Any, ...]:
    """All that a decoder tells, comparable: NaN by its text.

    But not its counts of unknown and missing columns. Arrays compare records by their number of
    fields, and so take a few for what the others are; machine code counts each one.
    """
    assert decoded_batch.decoder_error_count == 0
    return (
        repr(rows_of(decoded_batch)),
        reasons_of(decoded_batch),
        decoded_batch.skipped_count,
        sorted(decoded_batch.tables.items()),
        decoded_batch.schemas,
        decoded_batch.last_truncate,
        decoded_batch.changes.rows.schema,
    )


def check(
    batches: Sequence[pa.RecordBatch],
    columns: str,
    keys: Sequence[str],
    options: Mapping[str, str],
    *,
    keeps: bool = True,
) -> None:
    """Decode the batches one after the other by both, and compare.

    A pipeline would decode a batch at which a decoder fails again in halves, and so hide it.
    """
    arrays, machine = (
        a_format(
            columns, keys, options={**options, DECODER: kind}, keeps_update_before=keeps
        ).decoder
        for kind in (ARRAYS, COMPILED)
    )
    for batch in batches:
        assert everything(machine.decode(batch)) == everything(arrays.decode(batch))


@pytest.mark.parametrize("odd", [0.0, 0.002, 0.02, 0.2])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("make", [message, flat_message])
@pytest.mark.slow
def test_both_decoders_agree_on_random_messages(
    seed: int, odd: float, make: Callable[..., str]
) -> None:
    rng = random.Random(seed)
    batches = [
        messages(*(make(rng, odd) for _ in range(size)), key=KEY) for size in (1, 2, 40, 400, 3)
    ]
    check(batches, COLUMNS, ("dt", "id"), SAFE | MODES[seed % len(MODES)], keeps=seed % 2 == 0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.slow
def test_each_unknown_and_missing_column_is_counted(seed: int) -> None:
    rng = random.Random(seed)
    names = [["zz", "y", *NAMES[2:-1]][index] for index in range(seed, 8)]
    values = []
    for _ in range(150):
        text = message(rng, 0)
        for name in names:
            if rng.random() < 0.1:
                text = re.sub(rf'"{name}":("[^"]*"|[^,}}]*),', "", text)
            elif rng.random() < 0.02:
                text = text.replace('{"id"', f'{{"{name}{rng.randrange(3)}":[1],"id"')
        values.append(text)
    together = a_format(COLUMNS, ("dt", "id"), options=SAFE | {DECODER: COMPILED})
    alone = a_format(COLUMNS, ("dt", "id"), options=SAFE | {DECODER: ARRAYS})
    expected: dict[Any, Sighting] = {}
    for index, value in enumerate(values):
        for column, sighting in alone.decode(messages(value)).drift.items():
            one_more = Sighting(sighting.record_count, index)
            expected[column] = one_more.plus(expected.get(column, Sighting(0, index)))
    assert together.decode(messages(*values)).drift == expected
    assert expected


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("make", [message, flat_message])
@pytest.mark.slow
def test_both_decoders_agree_on_broken_bytes(seed: int, make: Callable[..., str]) -> None:
    rng = random.Random(seed)
    batches = []
    for share in (0.01, 0.2, 0.9):
        values = [make(rng, 0.01).encode() for _ in range(200)]
        values = [mutated(value, rng) if rng.random() < share else value for value in values]
        batches.append(messages(*values, key=KEY))
    check(batches, COLUMNS, ("dt", "id"), SAFE | MODES[seed % len(MODES)])


@pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda wrapping: wrapping.name)
@pytest.mark.slow
def test_both_decoders_agree_on_hostile_messages(wrapping: Wrapping, seed: int) -> None:
    rng = random.Random(seed)
    values = [message.value for message in hostile_messages(wrapping, 500, rng)]
    values += [message.value for message in graded_messages(wrapping)]
    batches = [messages(*values[index : index + 300]) for index in range(0, len(values), 300)]
    check(batches, HOSTILE_COLUMNS, ("id",), HOSTILE_OPTIONS)


@pytest.mark.parametrize("seed", range(2))
def test_each_byte_around_the_images_counts(seed: int) -> None:
    """Each odd message is in a whole batch, in which the decoder knows the frame of the others."""
    rng = random.Random(seed)
    good = message(rng, 0)
    while '"before":{' in good:
        good = message(rng, 0)
    places = [index for index in range(len(good)) if index < 30 or index > len(good) - 40]
    broken = [good[:index] + "\x04" + good[index + 1 :] for index in places]
    batch = messages(*[good] * 60, *broken, *[good] * 60, key=KEY)
    check([batch, batch], COLUMNS, ("dt", "id"), SAFE)


@pytest.mark.parametrize("first", ["[]", "1", "null", '"x"', "true", "{", '{"payload":1}'])
@pytest.mark.parametrize("make", [message, flat_message])
def test_a_topic_may_begin_with_a_value_that_is_not_an_object(
    first: str, make: Callable[..., str], seed: int
) -> None:
    rng = random.Random(seed)
    batches = [messages(first, *(make(rng, 0) for _ in range(30)), key=KEY) for _ in range(2)]
    check(batches, COLUMNS, ("dt", "id"), SAFE)


@pytest.mark.parametrize("kind", GROWING)
@pytest.mark.slow
def test_messages_on_which_a_careless_decoder_spends_the_square(kind: str) -> None:
    growing = GROWING[kind]
    batch = messages(*growing.values(growing.size // 4))
    check([batch], growing.columns, ("id",), growing.options)


CAPTURED: tuple[tuple[str, dict[str, str]], ...] = (
    ("debezium_pg_plain", {}),
    ("debezium_pg_schema", {}),
    ("debezium_pg_flat", {"decimal.handling.mode": "double"}),
    ("debezium_pg_identity", {}),
    ("debezium_pg_settings", {}),
    ("debezium_pg_alters", {}),
    ("debezium_mariadb_plain", {}),
    ("debezium_mariadb_alters", {}),
)


@pytest.mark.parametrize(("file", "options"), CAPTURED, ids=[file for file, _ in CAPTURED])
def test_both_decoders_agree_on_captured_messages(file: str, options: dict[str, str]) -> None:
    topics = sorted({line["topic"] for line in fixture_lines(file)})
    for topic in topics:
        batch = captured_messages(file, topic)
        columns = columns_of(batch)
        if columns:
            check([batch, batch], columns, ("id",), SAFE | options)


def columns_of(batch: pa.RecordBatch) -> str:
    """Columns for the fields of a topic's images: all but the key as text, in another order too."""
    names: dict[str, str] = {}
    for value in batch.column("value").drop_null().to_pylist():
        document = json.loads(value) or {}
        document = document.get("payload", document) or {}
        for image in (document.get("before"), document.get("after")):
            for name, cell in (image or {}).items():
                kind = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}.get(type(cell), "STRING")
                names[name] = kind if names.get(name) in (None, kind) else "STRING"
    names.pop("id", None)
    rest = "".join(f", `{name}` {kind}" for name, kind in names.items())
    return f"id BIGINT NOT NULL{rest}" if names else ""
