"""Ten thousand malformed messages: none is lost, and none affects its neighbours."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch
from stream_app.model.schema.data_type import parse_columns
from tests.support.messages.debezium_messages import a_format, messages, reasons_of, rows_of
from tests.support.messages.graded_messages import graded_messages
from tests.support.messages.hostile_messages import (
    ALL_COLUMNS,
    COLUMNS,
    MODES,
    OPTIONS,
    WRAPPINGS,
    Fate,
    Hostile,
    Wrapping,
    hostile_messages,
    values_in_columns,
)

MESSAGES, BATCH, ALONE = 2_500, 500, 200
ALONE_STEP = 4
"""One message in so many is decoded alone too."""
NAMES = parse_columns(COLUMNS).names
WRAPPING = pytest.mark.parametrize("wrapping", WRAPPINGS, ids=lambda wrapping: wrapping.name)


def decode(hostile: list[Hostile], **options: str) -> DecodedBatch:
    decoder = a_format(COLUMNS, ("id",), options={**OPTIONS, **options})
    return decoder.decode(messages(*(message.value for message in hostile)))


def check(hostile: list[Hostile], decoded_batch: DecodedBatch) -> None:
    """Each message has become rows, or is quarantined, or is counted as skipped."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for index, kind, *values in rows_of(decoded_batch):
        row = dict(zip(NAMES, values, strict=True))
        rows.setdefault(index, []).append({"": kind, **row})
    reasons = reasons_of(decoded_batch)
    assert not rows.keys() & reasons.keys()
    assert decoded_batch.bad_records.num_rows == len(reasons), "set aside twice"
    assert len(rows) + len(reasons) + decoded_batch.skipped_count == len(hostile), "some are lost"
    for index, message in enumerate(hostile):
        check_fate(message, rows.get(index), reasons.get(index))
    originals = [hostile[index].value for index in sorted(reasons)]
    assert decoded_batch.bad_records.column("value").to_pylist() == originals


def check_fate(message: Hostile, rows: list[dict[str, Any]] | None, reason: str | None) -> None:
    where = f"{message.description}: {message.value[:300] if message.value else message.value!r}"
    match message.fate:
        case Fate.ROW:
            assert rows == [{"": "+I", **message.row}], f"{where} {reason}"
        case Fate.BAD:
            assert reason is not None, f"{where} {rows}"
        case Fate.NO_ROW:
            assert rows is None, f"{where} {rows}"
        case Fate.ROW_OR_BAD if rows is not None:
            [row] = rows
            for name, value in message.row.items():
                if name not in message.touched_names:
                    assert row[name] == value, where
                else:
                    others = [
                        message.row[other] for other in message.row if other not in (name, "y")
                    ]
                    assert row[name] is None or row[name] not in others, where


@WRAPPING
@pytest.mark.slow
def test_no_hostile_message_is_lost_or_harms_another(wrapping: Wrapping, seed: int) -> None:
    rng = random.Random(seed)
    hostile = hostile_messages(wrapping, MESSAGES, rng)
    for start in range(0, MESSAGES, BATCH):
        part = hostile[start : start + BATCH]
        check(part, decode(part))


@WRAPPING
@pytest.mark.slow
def test_a_hostile_message_decodes_alone_as_in_a_batch(wrapping: Wrapping, seed: int) -> None:
    rng = random.Random(seed + 1)
    hostile = hostile_messages(wrapping, ALONE, rng)
    check_alone(hostile, decode(hostile))


@pytest.mark.slow
@WRAPPING
def test_messages_of_every_size_decode_alone_as_in_a_batch(wrapping: Wrapping) -> None:
    hostile = graded_messages(wrapping)
    decoded_batch = decode(hostile)
    check(hostile, decoded_batch)
    assert decoded_batch.decoder_error_count == 0
    sample = hostile[::ALONE_STEP]
    check_alone(sample, decode(sample))


def check_alone(hostile: list[Hostile], together: DecodedBatch) -> None:
    """Check that each message has the same outcome alone as beside the others."""
    decoder = a_format(COLUMNS, ("id",), options=OPTIONS)
    rows: list[tuple[Any, ...]] = []
    reasons: dict[int, str] = {}
    for index, message in enumerate(hostile):
        batch = pa.RecordBatch.from_pylist(
            [{"topic": "t", "partition": 0, "offset": index, "value": message.value}],
            MESSAGE_SCHEMA,
        )
        decoded_batch = decoder.decode(batch)
        rows += [(index, *row[1:]) for row in rows_of(decoded_batch)]
        reasons |= reasons_of(decoded_batch)
    assert repr(rows_of(together)) == repr(rows)
    assert reasons_of(together) == reasons


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: " ".join(mode.values()))
@pytest.mark.slow
def test_any_value_in_any_column_harms_no_other(
    mode: Mapping[str, str], keeps: bool, seed: int
) -> None:
    """Each message has rows or a reason, and the same ones when it comes alone."""
    values = values_in_columns(MESSAGES // 10, random.Random(f"{seed} {mode} {keeps}"))

    def fate(decoded_batch: DecodedBatch) -> dict[int, list[Any]]:
        outcomes: dict[int, list[Any]] = {}
        for index, *row in rows_of(decoded_batch):
            outcomes.setdefault(index, []).append(row)
        reasons = reasons_of(decoded_batch)
        assert not outcomes.keys() & reasons.keys()
        return {**outcomes, **{index: [reason] for index, reason in reasons.items()}}

    decoder = a_format(ALL_COLUMNS, options=mode, keeps_update_before=keeps)
    together = fate(decoder.decode(messages(*values)))
    assert list(together.keys() ^ set(range(len(values)))) == []
    for index in range(0, len(values), 20):
        alone = fate(decoder.decode(messages(values[index])))
        assert repr(alone[0]) == repr(together[index]), values[index]
