"""Every captured message comes out as the SQL that produced it says.


The expected values are written by hand from that SQL (PostgreSQL 15 and MariaDB 10.11 through
Debezium 3.7 and 3.5); nothing here was copied from what the decoder returned.
"""

# ruff: noqa: DTZ001 - a TIMESTAMP has no zone

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from stream_app.errors import SourceError
from tests.support.messages.captured_tables import (
    CUSTOMERS,
    DEFAULT_IDENTITY,
    FLAT,
    LEAP,
    MARIA_CUSTOMERS,
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
    decoded_batch = a_format(CUSTOMERS, options=DEFAULT_IDENTITY).decode(
        captured_messages("debezium_pg_plain", "pg.shop.customers")
    )
    assert rows_of(decoded_batch) == CUSTOMER_CHANGES
    assert reasons_of(decoded_batch) == {}
    assert decoded_batch.skipped_count == 2


def test_pg_schema_customers() -> None:
    """Three Kafka partitions change the order of the rows, but not the changes."""
    decoded_batch = a_format(CUSTOMERS, options=DEFAULT_IDENTITY).decode(
        captured_messages("debezium_pg_schema", "pgs.shop.customers")
    )
    got = sorted((kind, values) for _, kind, *values in rows_of(decoded_batch))
    want = sorted((kind, values) for _, kind, *values in CUSTOMER_CHANGES)
    assert str(got) == str(want)
    assert reasons_of(decoded_batch) == {}
    assert decoded_batch.skipped_count == 2


def test_pg_flat_customers() -> None:
    """Milliseconds only, and alone with its nulls: row 3 has no tier, phone stays null."""
    decoded_batch = a_format(
        CUSTOMERS + ", phone STRING, score DOUBLE, level BIGINT",
        options=FLAT | DEFAULT_IDENTITY,
    ).decode(captured_messages("debezium_pg_flat", "pgf.shop.customers"))
    none = (None, None, None)
    millis = {"updated_at": dt.datetime(2024, 2, 29, 23, 59, 59, 123000)}
    before_epoch = dt.datetime(1969, 12, 31, 23, 59, 59, 999000)
    assert rows_of(decoded_batch) == [
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
    assert (decoded_batch.skipped_count, reasons_of(decoded_batch)) == (2, {})


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
    decoded_batch = a_format(ORDERS, ("order_id", "line"), options={"truncate": "ignore"}).decode(
        captured_messages(file, f"{topic}.shop.orders")
    )
    for number in (1, 2):  # by line: they lie in different Kafka partitions
        got = [row[1:] for row in rows_of(decoded_batch) if row[3] == number]
        assert got == [row for row in ORDER_CHANGES if row[2] == number]
    assert decoded_batch.skipped_count == 2  # tombstone and truncate


def test_pg_orders_truncate_stops() -> None:
    decoder = a_format(ORDERS, ("order_id", "line"))
    with pytest.raises(SourceError) as caught:
        decoder.decode(captured_messages("debezium_pg_plain", "pg.shop.orders"))
    assert "truncated" in caught.value.problem
    assert caught.value.where == "topic pg.shop.orders, partition 0, offset 6"
    assert "truncate = 'ignore'" in caught.value.fix


def test_pg_orders_without_update_before() -> None:
    decoder = a_format(
        ORDERS, ("order_id", "line"), options={"truncate": "ignore"}, keeps_update_before=False
    )
    decoded_batch = decoder.decode(captured_messages("debezium_pg_plain", "pg.shop.orders"))
    assert [row[1:] for row in rows_of(decoded_batch)] == [
        row for row in ORDER_CHANGES if row[0] != "-U"
    ]


def test_pg_flat_orders() -> None:
    """1.0E-4 is exactly 0.0001; a flattened update has no before-image."""
    decoder = a_format(ORDERS, ("order_id", "line"), options=FLAT)
    decoded_batch = decoder.decode(captured_messages("debezium_pg_flat", "pgf.shop.orders"))
    assert [row[1:] for row in rows_of(decoded_batch)] == [
        row for row in ORDER_CHANGES if row[0] != "-U"
    ]


@pytest.mark.parametrize(
    ("file", "topic"),
    [
        ("debezium_pg_plain", "pg.shop.documents"),
        ("debezium_pg_schema", "pgs.shop.documents"),
        ("debezium_pg_flat", "pgf.shop.documents"),
    ],
)
def test_unchanged_toast_value_without_before_image(file: str, topic: str) -> None:
    decoded_batch = a_format("id INT, title STRING, body STRING").decode(
        captured_messages(file, topic)
    )
    assert rows_of(decoded_batch) == [(0, "+I", 1, "long", "0123456789" * 900)]
    (reason,) = reasons_of(decoded_batch).values()
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
    decoded_batch = a_format("a INT, b STRING", ("a", "b")).decode(captured_messages(file, topic))
    inserted_values = (1, "one")
    assert [row[1:] for row in rows_of(decoded_batch)] == [
        ("+I", *inserted_values),
        ("+I", *inserted_values),
        ("-D", *inserted_values),
        ("-D", *inserted_values),
    ]
    assert decoded_batch.skipped_count == 2


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
    batch = captured_messages(file, topic)
    decoded_batch = a_format("id STRING, name STRING").decode(batch)
    assert rows_of(decoded_batch) == []
    assert reasons_of(decoded_batch) == {}
    assert decoded_batch.skipped_count == batch.num_rows
    assert count in (None, batch.num_rows)


SEEN = dt.datetime(2024, 2, 29, 23, 59, 59, 123000, tzinfo=UTC)


def maria(row: tuple[Any, ...], seen_time: Any = None, **more: Any) -> tuple[Any, ...]:
    extra = (more.get("phone"), None, more.get("level"))
    return (*row[:7], seen_time, row[7], *extra)


def test_mariadb_customers() -> None:
    decoded_batch = a_format(MARIA_CUSTOMERS).decode(
        captured_messages("debezium_mariadb_plain", "mdb.shop.customers")
    )
    richer = with_(ADA, balance=D("1334.75"))
    li = (3, "李雷 🚀", None, 1, D("0.00"), None, None, None)
    bare = (None,) * 6
    later = {"phone": "-", "level": 1}  # after RENAME tier TO level
    six, seven = (6, "a", *bare), (7, "b", *bare)
    renamed_row = with_(richer, tier=None)
    assert rows_of(decoded_batch) == [
        (0, "+I", *maria(ADA, SEEN)),
        (1, "+I", *maria(LUKASZ)),
        (2, "+I", *maria(li)),
        (3, "-U", *maria(ADA, SEEN)),
        (3, "+U", *maria(richer, SEEN)),
        (4, "-D", *maria(li)),
        (6, "+I", *maria(with_(li, id=30))),
        (7, "-D", *maria(LUKASZ)),
        (9, "+I", *maria((5, "After DDL", None, 1, *bare[:4]), phone="-")),
        (10, "-U", *maria(renamed_row, SEEN, phone="-", level=2)),
        (10, "+U", *maria(renamed_row, SEEN, phone="-", level=255)),
        (11, "+I", *maria(six, **later)),
        (12, "+I", *maria(seven, **later)),
        (13, "-U", *maria(six, **later)),
        (13, "+U", *maria(with_(six, name="replaced"), **later)),
        (14, "-U", *maria(seven, **later)),
        (14, "+U", *maria(with_(seven, name="upserted"), **later)),
    ]
    assert (decoded_batch.skipped_count, reasons_of(decoded_batch)) == (2, {})
