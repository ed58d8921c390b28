"""Every captured message comes out as the SQL that produced it says.


The expected values are written by hand from that SQL (PostgreSQL 15 and MariaDB 10.11 through
Debezium 3.7 and 3.5); nothing here was copied from what the decoder returned.
"""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest

from stream_app.errors import SourceError
from tests.unit.cdc.debezium_messages import a_format, captured, reasons_of, rows_of

UTC = dt.UTC
D = Decimal
CUSTOMERS = (
    "id INT, name STRING NOT NULL, email STRING, tier SMALLINT, balance DECIMAL(12,2), "
    "joined DATE, updated_at TIMESTAMP(6), note STRING"
)
DEFAULT_IDENTITY = {"replica-identity": "default"}
FLAT = {"decimal.handling.mode": "double", "time.precision.mode": "connect"}
LEAP = dt.datetime(2024, 2, 29, 23, 59, 59, 123456)
ADA = (1, "Ada Novak", "ada@example.org", 2, D("1234.50"), dt.date(1999, 12, 31), LEAP, None)
LUKASZ = (
    *(2, "Łukasz Ößtürk", None, 1, D("-0.01"), dt.date(1815, 12, 10)),
    *(dt.datetime(1969, 12, 31, 23, 59, 59, 999999), 'two\nlines "and" \\'),
)
LI = (
    *(3, "李雷 🚀", "li@example.org", 1, D("9999999999.99"), dt.date(9999, 12, 31)),
    *(dt.datetime(2024, 3, 10, 2, 30), ""),
)
NEW_YEAR = (dt.date(2024, 1, 1), dt.datetime(2024, 1, 1))
GRACE = (4, "Grace", "grace@example.org", 3, D("0.00"), *NEW_YEAR, "new")
DDL = (
    *(5, "After DDL", None, 1, D("5.55"), dt.date(2024, 7, 1), dt.datetime(2024, 7, 1, 10)),
    "x",
)
NOTHING: tuple[None, ...] = (None,) * 5


def with_(row: tuple[Any, ...], **changes: Any) -> tuple[Any, ...]:
    names = ["id", "name", "email", "tier", "balance", "joined", "updated_at", "note"]
    return tuple(changes.get(name, value) for name, value in zip(names, row, strict=True))


def gone(key: int) -> tuple[Any, ...]:
    """REPLICA IDENTITY DEFAULT: only the key, and an invented "" in the NOT NULL column."""
    return (key, "", *NOTHING, None)


CUSTOMER_CHANGES = [
    (0, "+I", *ADA),
    (1, "+I", *LUKASZ),
    (2, "+I", *LI),
    (3, "+I", *GRACE),
    (4, "+U", *with_(ADA, balance=D("1334.75"))),
    (5, "-D", *gone(4)),  # the key change, first half; 6 is its tombstone
    (7, "+I", *with_(GRACE, id=40)),
    (8, "-D", *gone(2)),  # 9 is its tombstone
    (10, "+I", *DDL),
    (11, "+U", *with_(ADA, balance=D("1334.75"))),
    (12, "+U", *with_(LI, tier=None, note=None)),  # tier was renamed, note dropped
]


def test_pg_plain_customers() -> None:
    decoded = a_format(CUSTOMERS, options=DEFAULT_IDENTITY).decode(
        captured("debezium_pg_plain", "pg.shop.customers")
    )
    assert rows_of(decoded) == CUSTOMER_CHANGES
    assert reasons_of(decoded) == {}
    assert decoded.skipped == 2


def test_pg_schema_customers() -> None:
    """Three Kafka partitions: the order differs, the changes do not."""
    decoded = a_format(CUSTOMERS, options=DEFAULT_IDENTITY).decode(
        captured("debezium_pg_schema", "pgs.shop.customers")
    )
    got = sorted((kind, values) for _, kind, *values in rows_of(decoded))
    want = sorted((kind, values) for _, kind, *values in CUSTOMER_CHANGES)
    assert str(got) == str(want)
    assert reasons_of(decoded) == {}
    assert decoded.skipped == 2


def test_pg_flat_customers() -> None:
    """Milliseconds only, and alone with its nulls: row 3 has no tier, phone stays null."""
    decoded = a_format(
        CUSTOMERS + ", phone STRING, score DOUBLE, level BIGINT",
        options=FLAT | DEFAULT_IDENTITY,
    ).decode(captured("debezium_pg_flat", "pgf.shop.customers"))
    none = (None, None, None)
    millis = {"updated_at": dt.datetime(2024, 2, 29, 23, 59, 59, 123000)}
    before_epoch = dt.datetime(1969, 12, 31, 23, 59, 59, 999000)
    assert rows_of(decoded) == [
        (0, "+I", *with_(ADA, **millis), *none),
        (1, "+I", *with_(LUKASZ, updated_at=before_epoch), *none),
        (2, "+I", *with_(LI, tier=None), *none),
        (3, "+I", *GRACE, *none),
        (4, "+U", *with_(ADA, balance=D("1334.75"), **millis), *none),
        (5, "-D", *gone(4), *none),
        (7, "+I", *with_(GRACE, id=40), *none),
        (8, "-D", *gone(2), *none),
        (10, "+I", *DDL, "+48 1", 2.5, None),
        (11, "+U", *with_(ADA, balance=D("1334.75"), **millis), *none),
        (12, "+U", *with_(LI, tier=None, note=None), "-", None, 5_000_000_000),
    ]
    assert (decoded.skipped, reasons_of(decoded)) == (2, {})


ORDERS = (
    "order_id BIGINT, line INT, sku STRING, qty INT, price DECIMAL(10,4), placed TIMESTAMP_LTZ(6)"
)
BIG = 9007199254740993  # 2^53 + 1
TEN = dt.datetime(2024, 6, 1, 10, tzinfo=UTC)
LATER = TEN.replace(microsecond=1)


def line(number: int, qty: int) -> tuple[Any, ...]:
    if number == 1:
        return (BIG, 1, "SKU-1", qty, D("19.9900"), TEN)
    return (BIG, 2, "SKU-2", qty, D("0.0001"), LATER)


ORDER_CHANGES = [
    ("+I", *line(1, 3)),
    ("+I", *line(2, 1)),
    ("-U", *line(1, 3)),
    ("+U", *line(1, 4)),
    ("-U", *line(2, 1)),
    ("+U", *line(2, 2)),
    ("-D", *line(2, 2)),
]


@pytest.mark.parametrize("topic", ["pg", "pgs"])
def test_pg_orders_with_before_images(topic: str) -> None:
    file = {"pg": "debezium_pg_plain", "pgs": "debezium_pg_schema"}[topic]
    decoded = a_format(ORDERS, ("order_id", "line"), options={"truncate": "ignore"}).decode(
        captured(file, f"{topic}.shop.orders")
    )
    for number in (1, 2):  # by line: they lie in different Kafka partitions
        got = [row[1:] for row in rows_of(decoded) if row[3] == number]
        assert got == [row for row in ORDER_CHANGES if row[2] == number]
    assert decoded.skipped == 2  # tombstone and truncate


def test_pg_orders_truncate_stops() -> None:
    decoder = a_format(ORDERS, ("order_id", "line"))
    with pytest.raises(SourceError) as caught:
        decoder.decode(captured("debezium_pg_plain", "pg.shop.orders"))
    assert "truncated" in caught.value.what
    assert caught.value.where == "topic pg.shop.orders, partition 0, offset 6"
    assert "truncate = 'ignore'" in caught.value.fix


def test_pg_orders_without_update_before() -> None:
    decoder = a_format(
        ORDERS, ("order_id", "line"), options={"truncate": "ignore"}, keep_update_before=False
    )
    decoded = decoder.decode(captured("debezium_pg_plain", "pg.shop.orders"))
    assert [row[1:] for row in rows_of(decoded)] == [row for row in ORDER_CHANGES if row[0] != "-U"]


def test_pg_flat_orders() -> None:
    """1.0E-4 is exactly 0.0001; a flattened update has no before-image."""
    decoder = a_format(ORDERS, ("order_id", "line"), options=FLAT)
    decoded = decoder.decode(captured("debezium_pg_flat", "pgf.shop.orders"))
    assert [row[1:] for row in rows_of(decoded)] == [row for row in ORDER_CHANGES if row[0] != "-U"]


@pytest.mark.parametrize(
    ("file", "topic"),
    [
        ("debezium_pg_plain", "pg.shop.documents"),
        ("debezium_pg_schema", "pgs.shop.documents"),
        ("debezium_pg_flat", "pgf.shop.documents"),
    ],
)
def test_unchanged_toast_value_without_before_image(file: str, topic: str) -> None:
    decoded = a_format("id INT, title STRING, body STRING").decode(captured(file, topic))
    assert rows_of(decoded) == [(0, "+I", 1, "long", "0123456789" * 900)]
    (reason,) = reasons_of(decoded).values()
    assert "'body'" in reason
    assert "REPLICA IDENTITY FULL" in reason


@pytest.mark.parametrize(
    ("file", "topic"),
    [
        ("debezium_pg_plain", "pg.shop.no_key"),
        ("debezium_pg_schema", "pgs.shop.no_key"),
        ("debezium_pg_flat", "pgf.shop.no_key"),
    ],
)
def test_keyless_table(file: str, topic: str) -> None:
    decoded = a_format("a INT, b STRING", ("a", "b")).decode(captured(file, topic))
    one = (1, "one")
    assert [row[1:] for row in rows_of(decoded)] == [
        ("+I", *one),
        ("+I", *one),
        ("-D", *one),
        ("-D", *one),
    ]
    assert decoded.skipped == 2


@pytest.mark.parametrize(
    ("file", "topic", "count"),
    [
        ("debezium_pg_plain", "pg.message", 1),
        ("debezium_pg_schema", "pgs.message", 1),
        ("debezium_pg_flat", "pgf.message", 1),
        ("debezium_pg_schema", "pgs.transaction", None),
        ("debezium_mariadb_plain", "mdb", None),
    ],
)
def test_messages_that_mean_no_row(file: str, topic: str, count: int | None) -> None:
    batch = captured(file, topic)
    decoded = a_format("id STRING, name STRING").decode(batch)
    assert rows_of(decoded) == []
    assert reasons_of(decoded) == {}
    assert decoded.skipped == batch.num_rows
    assert count in (None, batch.num_rows)


ALL_TYPES = (
    "id BIGINT, c_bool BOOLEAN, c_int2 SMALLINT, c_int8 BIGINT, c_real FLOAT, c_double DOUBLE, "
    "c_dec DECIMAL(38,10), c_money DECIMAL(12,2), c_char CHAR(5), c_varchar VARCHAR(20), "
    "c_text STRING, c_bytea BYTES, c_time TIME(3), c_timetz TIME(0), c_ts3 TIMESTAMP(3), "
    "c_interval BIGINT, c_uuid STRING, c_json STRING, c_jsonb STRING, c_enum STRING, "
    "c_bit BOOLEAN, c_bits BYTES, c_ints STRING, c_texts STRING, c_inet STRING, c_xml STRING, "
    "c_range STRING"
)
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
    decoded = a_format(columns, options=options).decode(
        captured(f"debezium_pg_{file}", f"{topic}.shop.all_types")
    )
    assert reasons_of(decoded) == {}
    rows = {row[2]: row[2:] for row in rows_of(decoded)}
    assert rows[1] == (1, *[None] * 26)
    assert rows[2] == tuple(want)
    assert repr(rows[3]) == repr(ALL_TYPES_OF_3)


TIMES = "id BIGINT, c_date DATE, c_time TIME(6), c_ts TIMESTAMP(6), c_tstz TIMESTAMP_LTZ(6)"


@pytest.mark.parametrize("topic", ["pg", "pgs", "pgf"])
def test_pg_infinite_times_are_bad_records(topic: str) -> None:
    file = {"pg": "plain", "pgs": "schema", "pgf": "flat"}[topic]
    decoded = a_format(TIMES, options=FLAT if topic == "pgf" else {}).decode(
        captured(f"debezium_pg_{file}", f"{topic}.shop.all_types")
    )
    micros = 123000 if topic == "pgf" else 123456
    assert {row[2]: row[3:] for row in rows_of(decoded)} == {
        1: (None, None, None, None),
        2: (
            dt.date(2024, 2, 29),
            dt.time(23, 59, 59, 999000),  # Paimon keeps a time to the millisecond
            dt.datetime(2024, 2, 29, 23, 59, 59, micros),
            dt.datetime(2024, 3, 1, 7, 59, 59, 123456, tzinfo=UTC),
        ),
    }
    (reason,) = reasons_of(decoded).values()
    assert "column 'c_date' (DATE): 2146033979 is outside" in reason


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("c_ts TIMESTAMP(6)", "9223372036854775807"),
        ("c_tstz TIMESTAMP_LTZ(6)", '"-infinity"'),
    ],
)
def test_each_infinite_time_is_named(column: str, shown: str) -> None:
    decoded = a_format(f"id BIGINT, {column}").decode(
        captured("debezium_pg_plain", "pg.shop.all_types")
    )
    assert shown in reasons_of(decoded)[2]


def test_pg_numeric_without_scale() -> None:
    """39 digits are more than any DECIMAL; as a STRING the number's own parts are kept."""
    batch = captured("debezium_pg_plain", "pg.shop.all_types")
    struct = '{"scale":9,"value":"XODppWAV/sWq36MorjmBFQ=="}'
    as_text = a_format("id BIGINT, c_num STRING").decode(batch)
    assert rows_of(as_text)[1] == (1, "+I", 2, struct)
    as_decimal = a_format("id BIGINT, c_num DECIMAL(38,9)").decode(batch)
    assert struct in reasons_of(as_decimal)[1]
    digits = a_format("id BIGINT, c_num STRING").decode(
        captured("debezium_pg_schema", "pgs.shop.all_types")
    )
    assert (2, "123456789012345678901234567890.123456789") in [row[2:] for row in rows_of(digits)]


MARIA_CUSTOMERS = (
    "id INT, name STRING NOT NULL, email STRING, tier SMALLINT, balance DECIMAL(12,2), "
    "joined DATE, updated_at TIMESTAMP(6), seen TIMESTAMP_LTZ(3), note STRING, phone STRING, "
    "score DOUBLE, level SMALLINT"
)
SEEN = dt.datetime(2024, 2, 29, 23, 59, 59, 123000, tzinfo=UTC)


def maria(row: tuple[Any, ...], seen: Any = None, **more: Any) -> tuple[Any, ...]:
    extra = (more.get("phone"), None, more.get("level"))
    return (*row[:7], seen, row[7], *extra)


def test_mariadb_customers() -> None:
    decoded = a_format(MARIA_CUSTOMERS).decode(
        captured("debezium_mariadb_plain", "mdb.shop.customers")
    )
    richer = with_(ADA, balance=D("1334.75"))
    li = (3, "李雷 🚀", None, 1, D("0.00"), None, None, None)
    bare = (None,) * 6
    later = {"phone": "-", "level": 1}  # after RENAME tier TO level
    six, seven = (6, "a", *bare), (7, "b", *bare)
    renamed = with_(richer, tier=None)
    assert rows_of(decoded) == [
        (0, "+I", *maria(ADA, SEEN)),
        (1, "+I", *maria(LUKASZ)),
        (2, "+I", *maria(li)),
        (3, "-U", *maria(ADA, SEEN)),
        (3, "+U", *maria(richer, SEEN)),
        (4, "-D", *maria(li)),
        (6, "+I", *maria(with_(li, id=30))),
        (7, "-D", *maria(LUKASZ)),
        (9, "+I", *maria((5, "After DDL", None, 1, *bare[:4]), phone="-")),
        (10, "-U", *maria(renamed, SEEN, phone="-", level=2)),
        (10, "+U", *maria(renamed, SEEN, phone="-", level=255)),
        (11, "+I", *maria(six, **later)),
        (12, "+I", *maria(seven, **later)),
        (13, "-U", *maria(six, **later)),
        (13, "+U", *maria(with_(six, name="replaced"), **later)),
        (14, "-U", *maria(seven, **later)),
        (14, "+U", *maria(with_(seven, name="upserted"), **later)),
    ]
    assert (decoded.skipped, reasons_of(decoded)) == (2, {})


MARIA_TYPES = (
    "id BIGINT, c_bool BOOLEAN, c_tiny TINYINT, c_medium INT, c_ubig BIGINT, c_float FLOAT, "
    "c_double DOUBLE, c_dec DECIMAL(38,10), c_bit1 BOOLEAN, c_bit BYTES, c_char CHAR(5), "
    "c_text STRING, c_bin BINARY(4), c_blob BYTES, c_date DATE, c_time BIGINT, "
    "c_dt TIMESTAMP(0), c_dt6 TIMESTAMP(6), c_ts TIMESTAMP_LTZ(0), c_year INT, c_enum STRING, "
    "c_set STRING, c_json STRING, c_latin STRING"
)


def test_mariadb_all_types() -> None:
    """An unsigned bigint above 2^63 comes as -1 from the connector itself."""
    decoded = a_format(MARIA_TYPES, options={"truncate": "ignore"}).decode(
        captured("debezium_mariadb_plain", "mdb.shop.all_types")
    )
    second = dt.datetime(2024, 2, 29, 23, 59, 59)
    assert rows_of(decoded) == [
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
    assert decoded.skipped == 1


def test_a_time_beyond_a_day_is_no_time() -> None:
    decoded = a_format("id BIGINT, c_time TIME(6)", options={"truncate": "ignore"}).decode(
        captured("debezium_mariadb_plain", "mdb.shop.all_types")
    )
    assert "-3020398999999 is no time of day" in reasons_of(decoded)[1]


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
    """One by one, in one batch, and a thousand times over: always the same rows."""
    options = {"truncate": "ignore"} | (FLAT if "flat" in file else {})
    batch = captured(file, topic)
    alone_rows, alone_bad = [], {}
    for at in range(batch.num_rows):
        decoder = a_format(columns, keys, options=options, keep_update_before=keep)
        one = decoder.decode(batch.slice(at, 1))
        alone_rows += [(at, *row[1:]) for row in rows_of(one)]
        alone_bad |= reasons_of(one)
    decoder = a_format(columns, keys, options=options, keep_update_before=keep)
    whole = decoder.decode(batch)
    assert repr(rows_of(whole)) == repr(alone_rows)
    assert reasons_of(whole) == alone_bad
