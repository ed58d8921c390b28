"""A job follows real messages of PostgreSQL and MariaDB whose columns change, as their SQL says.

The statements are in tests/testbed/capture.py, which rewrites the fixtures.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    reasons_of,
    rows_of,
)

COLUMNS = (
    "id BIGINT, name STRING, title STRING, amount DECIMAL(10, 2), phone STRING, level STRING, "
    "body STRING"
)
TRUNCATE = 15
ADA, KING = "Ada", "Augusta Ada King"
BODY = json.loads(
    captured_messages("debezium_pg_alters", "plain.pg.shop.story")["value"][11].as_py()
)
LONG = BODY["after"]["body"]

# offset, kind, id, name, title, amount, phone, level, body
INSERTS = [
    (0, "+I", 1, ADA, None, "1.50", None, None, None),
    (1, "+I", 2, None, None, "-0.01", None, None, None),
    (5, "+I", 3, None, None, "-0.01", None, None, None),
    (6, "+I", 4, "Bob", None, "4.00", "+44 1", None, None),
    (7, "+I", 5, "Cyd", None, None, None, "7", None),
    (10, "+I", 6, None, "Dan", "6.00", None, "6", None),
]
UPDATES = [
    (2, "+U", 1, ADA, None, "2.50", None, None, None),
    (8, "+U", 1, KING, None, "12345678.90", None, "7", None),
    (9, "+U", 1, None, KING, "12345678.90", None, "8", None),
    (11, "+U", 6, None, "Dan", "6.00", None, "6", LONG),
]
LONG_KEPT = (12, "+U", 6, None, "Dan", "6.00", None, "9", LONG)
DELETED = {3: 2, 13: 5}


def of_sql(*rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [(*row[:5], row[5] and Decimal(row[5]), *row[6:]) for row in sorted(rows)]


@pytest.mark.parametrize("prefix", ["envelope", "plain"])
@pytest.mark.parametrize("source", ["pg", "mariadb"])
def test_each_message_has_the_columns_of_its_time(source: str, prefix: str) -> None:
    topic = captured_messages(f"debezium_{source}_alters", f"{prefix}.{source}.shop.story")
    decoded_batch = a_format(COLUMNS, options={"truncate": "ignore"}).decode(topic)
    rows = rows_of(decoded_batch)
    news = [row for row in rows if row[1] in ("+I", "+U")]
    # ALTER TABLE … MODIFY drops a column's DEFAULT in MariaDB.
    eve = (16, "+I", 7, None, "Eve", None, None, "7" if source == "pg" else None, None)
    long_rows = [LONG_KEPT] if source == "mariadb" else []
    assert news == of_sql(*INSERTS, *UPDATES, *long_rows, eve)
    assert {row[0]: row[2] for row in rows if row[1] == "-D"} == DELETED
    reasons = reasons_of(decoded_batch)
    if source == "mariadb":
        assert reasons == {}
    else:
        # Not logged, and a table with PostgreSQL's default identity has no before-image of it.
        assert list(reasons) == [LONG_KEPT[0]]
        assert "REPLICA IDENTITY FULL" in reasons[LONG_KEPT[0]]


@pytest.mark.parametrize("source", ["pg", "mariadb"])
def test_a_truncate_is_a_message_without_a_key(source: str) -> None:
    topic = captured_messages(f"debezium_{source}_alters", f"plain.{source}.shop.story")
    message = topic.slice(TRUNCATE, 1).to_pylist()[0]
    assert message["key"] is None
    assert json.loads(message["value"])["op"] == "t"
