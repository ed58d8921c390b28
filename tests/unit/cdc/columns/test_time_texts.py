"""Texts of dates and times have one grammar in any batch; `datetime` is the model."""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import pytest

from tests.support.messages.debezium_messages import a_format, event, messages, reasons_of, rows_of

EPOCH = dt.datetime(1970, 1, 1)
DATES = ["1969-12-31", "2024-02-29", "2023-02-29", "1500-01-01", "1677-09-20", "2262-04-12"]
DATES += ["0001-01-02", "9999-12-30", "2024-2-29", "20240229", "2024-13-01", "2024-W09-4"]
CLOCKS = ["", "T07", "T07:30", " 07:30:15", "T07:30:15.1", "T23:59:59.123456", "t07:30:15"]
CLOCKS += ["T07:30:15.1234567", "T07:30:15.999999999", "T07:30:15.1234567891", "T07:30:15."]
CLOCKS += ["T24:00:00", "T07:60:00", "T07:30:60", "T0730", "T7:30:15", "T07:30:15,5"]
ZONES = ["", "Z", "z", "+02:00", "-0330", "+02", "+24:00", "+1:00", " Z", "Z ", "UTC"]
FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?"
    r"(Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


def nanos_of(text: str) -> int | None:
    """Nanoseconds since the epoch; None: not of the form, or no real time."""
    match = FORM.fullmatch(text)
    if not match:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if hour is None and zone not in (None, "Z"):
        return None
    try:
        moment = dt.datetime(
            *(int(part or 0) for part in (year, month, day, hour, minute, second))  # type: ignore[arg-type]
        )
    except ValueError:
        return None
    shift = dt.timedelta()
    if zone not in (None, "Z"):
        hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
        if hours > 23 or minutes > 59:
            return None
        shift = dt.timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)
    seconds = (moment - shift - EPOCH) // dt.timedelta(seconds=1)
    return seconds * 10**9 + int((fraction or "0").ljust(9, "0"))


def stamp(text: str, precision: int) -> Any:
    """Return a TIMESTAMP(p), which cuts digits beyond the precision off, towards the past."""
    nanos = nanos_of(text)
    if nanos is None or (precision > 6 and not -(2**63) < nanos < 2**63):
        return None
    unit = 10 ** (9 - precision)
    nanos = nanos // unit * unit
    if precision > 6:
        moment = EPOCH + dt.timedelta(seconds=nanos // 10**9)
        return f"{moment:%Y-%m-%d %H:%M:%S}.{nanos % 10**9:09}"
    return EPOCH + dt.timedelta(microseconds=nanos // 1000)


def date(text: str) -> Any:
    nanos = nanos_of(text) if re.fullmatch(r".{10}Z?", text) else None
    return None if nanos is None else (EPOCH + dt.timedelta(microseconds=nanos // 1000)).date()


def clock(text: str) -> Any:
    """A TIME is kept to the millisecond."""
    nanos = nanos_of(f"1970-01-01T{text}") if text else None
    if nanos is None:
        return None
    millis = nanos % (86_400 * 10**9) // 10**6
    return (EPOCH + dt.timedelta(milliseconds=millis)).time()


STAMPS = [f"{day}{time}{zone}" for day in DATES for time in CLOCKS for zone in ZONES]
TIMES = [f"{time[1:]}{zone}" for time in CLOCKS if time for zone in ZONES]


def fate(column: str, texts: list[str], *others: str) -> list[Any]:
    """Return the outcome of each text, in one batch with others."""
    sent = [event(after=json.dumps({"id": index, "v": text})) for index, text in enumerate(texts)]
    decoded_batch = a_format(f"id BIGINT, v {column}").decode(messages(*sent, *others))
    rows = {row[2]: row[3] for row in rows_of(decoded_batch)}
    reasons = reasons_of(decoded_batch)
    assert all((index in rows) != (index in reasons) for index in range(len(texts)))
    return [rows.get(index) for index in range(len(texts))]


@pytest.mark.parametrize(
    ("column", "texts", "meaning"),
    [
        *[
            (f"TIMESTAMP({p})", STAMPS, lambda text, p=p: stamp(text, p))
            for p in (0, 3, 5, 6, 7, 9)
        ],
        ("DATE", STAMPS, date),
        ("TIME(3)", TIMES, clock),
    ],
)
@pytest.mark.slow
def test_a_text_is_what_the_calendar_says_or_bad(column: str, texts: Any, meaning: Any) -> None:
    want = [meaning(text) for text in texts]
    good = [index for index, value in enumerate(want) if value is not None]
    assert 0 < len(good) < len(texts)
    assert fate(column, texts) == want
    assert fate(column, [texts[index] for index in good]) == [want[index] for index in good]
    broken = event(after='{"id":-1,"v":[]}')
    for index in range(0, len(texts), 40):
        assert fate(column, [texts[index]]) == [want[index]], texts[index]
        assert fate(column, [texts[index]], broken) == [want[index]], texts[index]


@pytest.mark.parametrize(
    "text", ["2024-02-29T07Z", "2024-02-29T07+02", "07Z", "2024-02-29T07:30:15.Z"]
)
@pytest.mark.parametrize("column", ["TIMESTAMP(3)", "TIMESTAMP_LTZ(6)", "TIMESTAMP(9)", "TIME(3)"])
def test_an_odd_text_is_bad_alone_and_among_good_ones(text: str, column: str) -> None:
    usual = "07:30:15Z" if column == "TIME(3)" else "2024-02-29T07:30:15Z"
    assert fate(column, [text]) == [None]
    assert fate(column, [text] * 100) == [None] * 100
    together = fate(column, [usual] * 50 + [text] + [usual] * 50)
    assert [index for index, value in enumerate(together) if value is None] == [50]


def test_a_number_where_texts_are_expected_has_no_unit() -> None:
    for column in ("DATE", "TIME(3)", "TIMESTAMP(6)"):
        decoder = a_format(f"id BIGINT, v {column}", options={"time.precision.mode": "isostring"})
        decoded_batch = decoder.decode(messages(event(after='{"id":1,"v":19439}')))
        assert "19439 is a number (read as iso; column.v.encoding" in reasons_of(decoded_batch)[0]
