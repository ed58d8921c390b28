"""DECIMAL columns take the exact number or make a bad record; Fraction is the model.

Numbers lie close to what a column can hold, far beyond it, and at the borders of 64, 128 and 256
bits, in each form that a connector sends. Each goes through the decoder among others of its form,
where it is parsed in columns, and alone beside a record that has to be read by itself.
"""

from __future__ import annotations

import base64
import json
import random
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.columns.decimal_columns import decimals_from_bytes
from tests.support.messages.debezium_messages import a_format, event, messages, reasons_of, rows_of

TYPES = [
    *((1, 0), (4, 0), (9, 9), (12, 2), (18, 18), (19, 0), (19, 19), (20, 18)),
    *((36, 1), (36, 2), (36, 3), (36, 18), (37, 0), (37, 1), (37, 2), (37, 37)),
    *((38, 0), (38, 1), (38, 9), (38, 10), (38, 18), (38, 37), (38, 38)),
]
PLAIN = Context(prec=400)


def numbers_near(precision: int, scale: int, rng: random.Random) -> list[Decimal]:
    """Numbers with at most 75 digits, of which about half fit."""
    bounds = [10**precision, 10 ** (precision - 1), 2**63, 2**64, 2**127, 2**128, 2**255, 10**38]
    unscaled_values = [bound + step for bound in bounds for step in (-1, 0, 1)]
    unscaled_values += [rng.randrange(10 ** rng.randrange(1, 76)) for _ in range(25)]
    # What wraps around in 128 bits and comes out small.
    unscaled_values += [
        2**128 * rng.randrange(1, 10**6) + rng.randrange(10**precision) for _ in range(10)
    ]
    numbers = [
        Decimal(rng.choice((1, -1)) * number).scaleb(-places, PLAIN)
        for number in unscaled_values
        for places in {0, scale, scale + 1, rng.randrange(39)}
    ]
    whole = [Decimal(rng.randrange(10 ** rng.randrange(1, 39))) for _ in range(25)]
    whole += [Decimal(10**exponent * rng.randrange(1, 20)) for exponent in range(0, 74, 2)]
    return [number for number in numbers + whole if number.adjusted() < 76]


def stored_number(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """Return the number as the column stores it; None if it cannot."""
    unscaled_value = Fraction(number) * 10**scale
    if unscaled_value.denominator != 1 or abs(unscaled_value) >= 10**precision:
        return None
    return Decimal(unscaled_value.numerator).scaleb(-scale, PLAIN)


def plain(number: Decimal) -> str:
    return format(number, "f")


def base64_of(unscaled_value: int) -> str:
    size = unscaled_value.bit_length() // 8 + 1
    return base64.b64encode(unscaled_value.to_bytes(size, "big", signed=True)).decode()


def struct_of(number: Decimal) -> str:
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    unscaled_value = int("".join(map(str, digits))) * (-1 if sign else 1)
    return json.dumps({"scale": -exponent, "value": base64_of(unscaled_value)})


FORMS = {
    "number": ("double", plain),
    "number with exponent": ("double", lambda number: f"{number:e}"),
    "number with few digits": ("double", lambda number: f"{number.normalize(PLAIN):e}"),
    "number among base64": ("precise", plain),
    "text": ("string", lambda number: f'"{plain(number)}"'),
    "text with exponent": ("string", lambda number: f'"{number:E}"'),
    "text beside numbers": ("double", lambda number: f'"{plain(number)}"'),
    "struct": ("precise", struct_of),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decimal_type", TYPES, ids=str)
@pytest.mark.slow
def test_a_number_is_exact_or_its_record_is_bad(
    decimal_type: tuple[int, int], form: str, seed: int
) -> None:
    precision, scale = decimal_type
    mode, write = FORMS[form]
    numbers = numbers_near(precision, scale, random.Random(f"{seed} {precision} {scale}"))
    expected = [stored_number(number, precision, scale) for number in numbers]
    texts = [write(number) for number in numbers]
    check(f"DECIMAL({precision},{scale})", texts, expected, {"decimal.handling.mode": mode})


@pytest.mark.parametrize(("precision", "scale"), TYPES)
def test_base64_is_exact_or_its_record_is_bad(precision: int, scale: int, seed: int) -> None:
    """Without a schema the scale is the column's own."""
    numbers = numbers_near(precision, 0, random.Random(f"{seed} {precision}"))
    whole = [int(number) for number in numbers if number == int(number)]
    expected = [
        Decimal(number).scaleb(-scale, PLAIN) if abs(number) < 10**precision else None
        for number in whole
    ]
    texts = [f'"{base64_of(number)}"' for number in whole]
    check(f"DECIMAL({precision},{scale})", texts, expected, {})


@pytest.mark.parametrize("sent_scale", [-3, 0, 1, 5, 18, 38, 60])
@pytest.mark.parametrize(("precision", "scale"), [(9, 9), (12, 2), (36, 3), (38, 0), (38, 18)])
def test_bytes_of_any_scale_are_exact_or_fail(
    precision: int, scale: int, sent_scale: int, seed: int
) -> None:
    rng = random.Random(f"{seed} {precision} {scale} {sent_scale}")
    digits = precision - scale + sent_scale  # those of an unscaled number that may fit
    unscaled_values = [10 ** max(0, digits) + step for step in (-1, 0, 1)]
    unscaled_values += [0, -1, 2**127 - 1, -(2**127)]
    unscaled_values += [rng.randrange(-(10 ** rng.randrange(1, 39)), 10**20) for _ in range(60)]
    unscaled_values += [
        number * 10 ** max(0, sent_scale - scale) for number in unscaled_values[7:40]
    ]
    expected = [
        stored_number(Decimal(number).scaleb(-sent_scale, PLAIN), precision, scale)
        for number in unscaled_values
    ]
    raw = [
        number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        for number in unscaled_values
    ]
    indices = range(len(raw))
    for chosen in (
        indices,
        [index for index in indices if expected[index] is not None],
        [index for index in indices if len(raw[index]) <= 16],
    ):
        values = pa.array([raw[index] for index in chosen] + [None], pa.binary())
        decimals, has_failed = decimals_from_bytes(
            values, sent_scale, pa.decimal128(precision, scale)
        )
        assert decimals.to_pylist() == [*(expected[index] for index in chosen), None]
        lost = [False] * len(values) if has_failed is None else has_failed.tolist()
        assert lost == [*(expected[index] is None for index in chosen), False]


def check(column: str, texts: list[str], expected: list[Any], options: dict[str, str]) -> None:
    """Decode all texts in one batch, those that fit in another, and some alone."""
    fits = [index for index, value in enumerate(expected) if value is not None]
    assert fits
    assert len(fits) < len(expected)
    decoder = a_format(f"id BIGINT, v {column}", options=options)
    sent = [event(after=f'{{"id":{index},"v":{text}}}') for index, text in enumerate(texts)]
    decoded_batch = decoder.decode(messages(*sent, event(after='{"id":-1,"v":[]}')))
    assert {row[2]: row[3] for row in rows_of(decoded_batch) if row[2] >= 0} == {
        index: expected[index] for index in fits
    }
    assert set(reasons_of(decoded_batch)) >= set(range(len(expected))) - set(fits)
    decoded_batch = decoder.decode(messages(*(sent[index] for index in fits)))
    assert [row[3] for row in rows_of(decoded_batch)] == [expected[index] for index in fits]
    for index in range(0, len(sent), 20):
        alone = decoder.decode(messages(sent[index]))
        assert [row[3] for row in rows_of(alone)] == (
            [] if expected[index] is None else [expected[index]]
        )


@pytest.mark.parametrize("column", ["DECIMAL(12,2)", "DECIMAL(38,18)"])
@pytest.mark.parametrize("is_flat", [True, False])
def test_base64_of_digits_alone_is_not_a_number_beside_numbers(column: str, is_flat: bool) -> None:
    """``"1234"`` is the base64 of three bytes; the parser would take it for 1234."""
    scale = int(column[:-1].partition(",")[2])
    rows = [
        f'{{"id":{index},"v":{"1.5" if index != 30 else chr(34) + "1234" + chr(34)}}}'
        for index in range(60)
    ]
    sent = rows if is_flat else [event(after=row) for row in rows]
    values = [row[3] for row in rows_of(a_format(f"id BIGINT, v {column}").decode(messages(*sent)))]
    unscaled_value = int.from_bytes(base64.b64decode("1234"), "big", signed=True)
    assert values[30] == Decimal(unscaled_value).scaleb(-scale)
    assert values[:30] + values[31:] == [Decimal("1.5")] * 59


@pytest.mark.parametrize("column", ["DECIMAL(12,2)", "DECIMAL(38,18)"])
@pytest.mark.parametrize("identity", ["full", "default"])
def test_numbers_in_both_images_and_in_the_key(column: str, identity: str) -> None:
    def row(key: str, value: str) -> str:
        return f'{{"id":"{key}","v":{value}}}'

    decoder = a_format(
        f"id {column}, v {column}", keeps_update_before=False,
        options={"decimal.handling.mode": "string", "replica-identity": identity},
    )  # fmt: skip
    sent = [
        event(after=row("1.5", "-7")),
        event("u", before=row("1.5", "-7"), after=row("1.5", "0.25")),
        event("u", before=row("1.5", "0.25"), after=row("2.5", "null")),
        event("d", before=row("2.5", "null")),
    ]
    old = Decimal("0.25") if identity == "full" else None
    assert rows_of(decoder.decode(messages(*sent))) == [
        (0, "+I", Decimal("1.5"), Decimal(-7)),
        (1, "+U", Decimal("1.5"), Decimal("0.25")),
        (2, "-U", Decimal("1.5"), old),
        (2, "+U", Decimal("2.5"), None),
        (3, "-D", Decimal("2.5"), None),
    ]
