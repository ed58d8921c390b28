"""Every type of a captured message comes out as the SQL that produced it says.

As `test_captured_messages`, with values of all types of PostgreSQL and MariaDB.
"""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest

from tests.support.messages.captured_tables import (
    ALL_TYPES,
    CUSTOMERS,
    FLAT,
    LEAP,
    MARIA_CUSTOMERS,
    MARIA_TYPES,
    ORDERS,
)
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    reasons_of,
    rows_of,
)

UTC = dt.UTC
D = Decimal
ALL_TYPES_OF_2 = (
    *(2, True, -32768, 9223372036854775807, 1.5, 0.1),
    *(D("-1234567890123456789012345678.0123456789"), D("1234.56")),
    *("ab   ", "varchar", 'tab\t quote" back\\ \x01', b"\x00\xff\x10"),
    *(dt.time(23, 59, 59, 999000), dt.time(7, 30)),
    dt.datetime(2024, 2, 29, 23, 59, 59, 123000),
    *(37091106700000, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    *('{"b": 1.10,  "a": [1, null]}', '{"a": [1, null], "b": 1.10}', "happy"),
    *(True, b"\x16", "[1,null,3]", '["x","y,z",null]'),
    *("192.0.2.1/24", '<a b="1">t</a>', "[1,10)"),
)
ALL_TYPES_OF_3 = (3, None, None, None, math.nan, math.inf, *[None] * 21)


@pytest.mark.parametrize("topic", ["pg", "pgs", "pgf"])
def test_pg_all_types(topic: str) -> None:
    file = {"pg": "plain", "pgs": "schema", "pgf": "flat"}[topic]
    options = {}
    want = list(ALL_TYPES_OF_2)
    if topic == "pgf":
        options = FLAT
        want[6] = D("-1234567890123456900000000000.0000000000")  # the double's own digits
    columns = ALL_TYPES
    if topic == "pg":  # plain messages do not say that a time counts microseconds
        options = {"column.c_time.encoding": "epoch-micros"}
    decoded_batch = a_format(columns, options=options).decode(
        captured_messages(f"debezium_pg_{file}", f"{topic}.shop.all_types")
    )
    assert reasons_of(decoded_batch) == {}
    rows = {row[2]: row[2:] for row in rows_of(decoded_batch)}
    assert rows[1] == (1, *[None] * 26)
    assert rows[2] == tuple(want)
    assert repr(rows[3]) == repr(ALL_TYPES_OF_3)


TIMES = "id BIGINT, c_date DATE, c_time TIME(6), c_ts TIMESTAMP(6), c_tstz TIMESTAMP_LTZ(6)"


@pytest.mark.parametrize("topic", ["pg", "pgs", "pgf"])
def test_pg_infinite_times_are_bad_records(topic: str) -> None:
    file = {"pg": "plain", "pgs": "schema", "pgf": "flat"}[topic]
    decoded_batch = a_format(TIMES, options=FLAT if topic == "pgf" else {}).decode(
        captured_messages(f"debezium_pg_{file}", f"{topic}.shop.all_types")
    )
    micros = 123000 if topic == "pgf" else 123456
    assert {row[2]: row[3:] for row in rows_of(decoded_batch)} == {
        1: (None, None, None, None),
        2: (
            dt.date(2024, 2, 29),
            dt.time(23, 59, 59, 999000),  # Paimon keeps a time to the millisecond
            dt.datetime(2024, 2, 29, 23, 59, 59, micros),
            dt.datetime(2024, 3, 1, 7, 59, 59, 123456, tzinfo=UTC),
        ),
    }
    (reason,) = reasons_of(decoded_batch).values()
    assert "column 'c_date' (DATE): 2146033979 is outside" in reason


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("c_ts TIMESTAMP(6)", "9223372036854775807"),
        ("c_tstz TIMESTAMP_LTZ(6)", '"-infinity"'),
    ],
)
def test_each_infinite_time_is_named(column: str, shown: str) -> None:
    decoded_batch = a_format(f"id BIGINT, {column}").decode(
        captured_messages("debezium_pg_plain", "pg.shop.all_types")
    )
    assert shown in reasons_of(decoded_batch)[2]


def test_pg_numeric_without_scale() -> None:
    """39 digits are more than any DECIMAL; as a STRING the number's own parts are kept."""
    batch = captured_messages("debezium_pg_plain", "pg.shop.all_types")
    struct = '{"scale":9,"value":"XODppWAV/sWq36MorjmBFQ=="}'
    as_text = a_format("id BIGINT, c_num STRING").decode(batch)
    assert rows_of(as_text)[1] == (1, "+I", 2, struct)
    as_decimal = a_format("id BIGINT, c_num DECIMAL(38,9)").decode(batch)
    assert struct in reasons_of(as_decimal)[1]
    digits = a_format("id BIGINT, c_num STRING").decode(
        captured_messages("debezium_pg_schema", "pgs.shop.all_types")
    )
    assert (2, "123456789012345678901234567890.123456789") in [row[2:] for row in rows_of(digits)]


def test_mariadb_all_types() -> None:
    """An unsigned bigint above 2^63 comes as -1 from the connector itself."""
    decoded_batch = a_format(MARIA_TYPES, options={"truncate": "ignore"}).decode(
        captured_messages("debezium_mariadb_plain", "mdb.shop.all_types")
    )
    second = dt.datetime(2024, 2, 29, 23, 59, 59)
    assert rows_of(decoded_batch) == [
        (0, "+I", -1, *[None] * 23),
        (
            *(1, "+I", 2, True, -128, 16777215, -1, 1.5, 0.1),
            D("-1234567890123456789012345678.0123456789"),
            *(True, b"\x0f\x0b", "ab", "text", b"\x00\xff\x00\x00", b"\x00\xff\x10"),
            *(dt.date(2024, 2, 29), -3020398999999, second, LEAP),
            *(second.replace(tzinfo=UTC), 2024, "happy", "a,c"),
            *('{"b": 1.10,  "a": [1, null]}', "Öß"),
        ),
    ]
    assert decoded_batch.skipped_count == 1


def test_a_time_beyond_a_day_is_not_a_time() -> None:
    decoded_batch = a_format("id BIGINT, c_time TIME(6)", options={"truncate": "ignore"}).decode(
        captured_messages("debezium_mariadb_plain", "mdb.shop.all_types")
    )
    assert "-3020398999999 is not a time of day" in reasons_of(decoded_batch)[1]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("file", "topic", "columns", "keys"),
    [
        ("debezium_pg_plain", "pg.shop.customers", CUSTOMERS, ("id",)),
        ("debezium_pg_schema", "pgs.shop.all_types", ALL_TYPES, ("id",)),
        ("debezium_pg_flat", "pgf.shop.all_types", TIMES, ("id",)),
        ("debezium_pg_schema", "pgs.shop.orders", ORDERS, ("order_id", "line")),
        ("debezium_mariadb_plain", "mdb.shop.customers", MARIA_CUSTOMERS, ("id",)),
        ("debezium_mariadb_plain", "mdb.shop.all_types", MARIA_TYPES, ("id",)),
    ],
)
def test_no_record_depends_on_its_neighbours(
    file: str, topic: str, columns: str, keys: tuple[str, ...], keep: bool
) -> None:
    """Messages decode to the same rows one by one, in one batch, and repeated a thousand times."""
    options = {"truncate": "ignore"} | (FLAT if "flat" in file else {})
    batch = captured_messages(file, topic)
    alone_rows, alone_bad = list[Any](), dict[int, str]()
    for index in range(batch.num_rows):
        decoder = a_format(columns, keys, options=options, keeps_update_before=keep)
        decoded_batch = decoder.decode(batch.slice(index, 1))
        alone_rows += [(index, *row[1:]) for row in rows_of(decoded_batch)]
        alone_bad |= reasons_of(decoded_batch)
    decoder = a_format(columns, keys, options=options, keeps_update_before=keep)
    whole = decoder.decode(batch)
    assert repr(rows_of(whole)) == repr(alone_rows)
    assert reasons_of(whole) == alone_bad
