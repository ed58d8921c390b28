"""The decoder treats a record alike beside any neighbours, and agrees with the reference."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.cdc.message_format import MessageFormat
from tests.support.messages.debezium_messages import a_format, messages, reasons_of
from tests.support.messages.generated_values import (
    Source,
    sources_of_options,
    sources_with_schema,
    texts_for,
)
from tests.support.messages.reference_decoder import BAD, meanings
from tests.support.messages.reference_json import NoJsonError, parse
from tests.support.suite.strides import Strides

GOOD_NEIGHBOURS, AMONG_GOOD = 500, 1
"""Far more than the decoder samples (16), reads one by one (32) or halves (64)."""
TEXTS_MIN, TEXTS_TOGETHER = 12, 180
REFUSED_KEY = 2**63
"""Two neighbours with it that the parser refuses make it hand over a small batch as a whole."""
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

Outcome = tuple[Any, ...]


class Wire:
    """Puts a source's values into messages."""

    def __init__(self, source: Source, *, is_flat: bool) -> None:
        self.source, self.is_flat = source, is_flat

    def decoder(self) -> MessageFormat:
        return a_format(f"id BIGINT, w STRING, v {self.source.sql}", options=self.source.options)

    def message(self, key: int, text: str) -> str:
        row = f'{{"id":{key},"w":"w{key}","v":{text}}}'
        payload = row
        if not self.is_flat:
            payload = f'{{"before":null,"after":{row},"source":{{"lsn":1}},"op":"c","ts_ms":1}}'
        if self.source.field is None:
            return payload
        return f'{{"schema":{self._schema()},"payload":{payload}}}'

    def _schema(self) -> str:
        row: dict[str, Any] = {"type": "struct", "optional": False}
        row["fields"] = [{"type": "int64", "field": "id"}, self.source.field]
        if self.is_flat:
            return json.dumps(row)
        images = [{**row, "field": name} for name in ("before", "after")]
        return json.dumps({"type": "struct", "fields": images, "name": "t.Envelope"})


def outcomes(decoded_batch: DecodedBatch, count: int) -> list[Outcome]:
    """Return for each message its rows, or its reason."""
    rows = decoded_batch.changes.rows
    outcomes: dict[int, Outcome] = {}
    columns = [rows.column(name).to_pylist() for name in ("id", "w")]
    values = comparable(rows.column("v"))
    for position, *row in zip(
        decoded_batch.changes.message_indices.tolist(), *columns, values, strict=True
    ):
        outcomes[position] = (*outcomes.get(position, ()), tuple(row))
    reasons = reasons_of(decoded_batch)
    assert not outcomes.keys() & reasons.keys()
    return [
        outcomes.get(position, (BAD, reasons.get(position, "lost"))) for position in range(count)
    ]


def comparable(column: pa.Array) -> list[Any]:
    """Values as the reference gives them; NaN and the zeros by their text."""
    kind = column.type
    if pa.types.is_decimal(kind):
        numbers = [None if number is None else number.as_tuple() for number in column.to_pylist()]
        return [
            number and (-1 if number.sign else 1) * int("".join(map(str, number.digits)))
            for number in numbers
        ]
    if pa.types.is_timestamp(kind):
        unit = _UNITS[kind.unit]
        return [
            number if number is None else number * unit
            for number in column.cast(pa.int64()).to_pylist()
        ]
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return list(column.cast(pa.int32()).to_pylist())
    return list(column.to_pylist())


def expected_outcomes(wire_form: Wire, key: int, text: str) -> list[Outcome]:
    """All that may come of a record; a bad one without its reason."""
    try:
        value = parse(wire_form.message(key, text))
    except NoJsonError:
        return [(BAD,)]
    row = dict(value)
    row = row if wire_form.source.field is None else dict(row["payload"])
    row = row if wire_form.is_flat else dict(row["after"])
    possible = meanings(wire_form.source.column, row["v"])
    return [(BAD,) if meaning is BAD else ((key, f"w{key}", meaning),) for meaning in possible]


def places(
    wire_form: Wire, texts: list[str], rng: random.Random
) -> Iterator[tuple[str, int, Outcome]]:
    """Yield each record's place, its number and its outcome."""
    for index, text in enumerate(texts):
        alone = wire_form.decoder().decode(messages(wire_form.message(index, text)))
        yield "alone", index, outcomes(alone, 1)[0]
        refused_messages = (
            wire_form.message(REFUSED_KEY, text),
            wire_form.message(REFUSED_KEY, "null"),
        )
        beside = messages(refused_messages[0], wire_form.message(index, text), refused_messages[1])
        yield "beside refused ones", index, outcomes(wire_form.decoder().decode(beside), 3)[1]
    order = rng.sample(range(len(texts)), len(texts))
    batch = messages(*(wire_form.message(index, texts[index]) for index in order))
    for index, outcome in zip(
        order, outcomes(wire_form.decoder().decode(batch), len(order)), strict=True
    ):
        yield "shuffled into a batch", index, outcome
    good = [text for text in texts if good_value(wire_form, text)]
    kinds = sorted({json_kind(text) for text in good})
    for kind, index in itertools.product(kinds, rng.sample(range(len(texts)), AMONG_GOOD)):
        neighbour = rng.choice([text for text in good if json_kind(text) == kind])
        among = [wire_form.message(index, neighbour)] * GOOD_NEIGHBOURS
        place = rng.randrange(GOOD_NEIGHBOURS)
        among[place] = wire_form.message(index, texts[index])
        decoded_batch = wire_form.decoder().decode(messages(*among))
        yield f"among {neighbour}", index, outcomes(decoded_batch, GOOD_NEIGHBOURS)[place]


def good_value(wire_form: Wire, text: str) -> bool:
    return (
        text != "null" and len(text) < 100 and (BAD,) not in expected_outcomes(wire_form, 1, text)
    )


def json_kind(text: str) -> str:
    return text[0] if text[0] in '"{[tf' else "0"


def violations(source: Source, most: int, seed: int) -> Iterator[str]:
    rng = random.Random(f"{seed} {source}")
    wire_form = Wire(source, is_flat=rng.random() < 0.5)
    texts = texts_for(source, rng, most)
    alone: dict[int, Outcome] = {}
    for place, index, outcome in places(wire_form, texts, rng):
        shown = (
            f"{source} flat={wire_form.is_flat} {texts[index][:80]} {place}: {repr(outcome)[:200]}"
        )
        first = alone.setdefault(index, outcome)
        if repr(outcome) != repr(first):
            yield f"{shown}; alone: {repr(first)[:200]}"
        elif place == "alone":
            allowed_outcomes = expected_outcomes(wire_form, index, texts[index])
            if repr(outcome[:1]) not in map(repr, allowed_outcomes):
                yield f"{shown}; expected: {repr(allowed_outcomes)[:200]}"


def check(sources: list[Source], seed: int, strides: Strides) -> None:
    # Each source has values of its own choice, so that many sources see all of them together.
    most = max(TEXTS_MIN, TEXTS_TOGETHER // len(sources)) // strides.length
    broken = [line for source in sources for line in violations(source, most, seed)]
    assert not broken, f"{len(broken)} in all\n" + "\n".join(broken)


def sources_by_type(sources: Iterable[Source]) -> dict[str, list[Source]]:
    """Group sources by the column's type without its arguments."""
    groups: dict[str, list[Source]] = {}
    for source in sources:
        groups.setdefault(source.sql.split("(")[0], []).append(source)
    return groups


BY_OPTIONS = sources_by_type(sources_of_options())
BY_SCHEMA = sources_by_type(sources_with_schema())


@pytest.mark.slow
@pytest.mark.parametrize("root", BY_OPTIONS)
def test_a_value_means_the_same_beside_any_neighbour(
    root: str, seed: int, strides: Strides
) -> None:
    check(BY_OPTIONS[root], seed, strides)


@pytest.mark.slow
@pytest.mark.parametrize("root", BY_SCHEMA)
def test_a_value_means_what_the_schema_says_beside_any_neighbour(
    root: str, seed: int, strides: Strides
) -> None:
    check(BY_SCHEMA[root], seed, strides)
