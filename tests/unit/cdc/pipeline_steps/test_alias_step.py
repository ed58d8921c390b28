"""A column takes the values of its own name and of its alias; wrong aliases are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_app.cdc.column_drift import DriftKind, parse_aliases
from stream_app.errors import UsageError
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    messages,
    reasons_of,
    rows_of,
)

COLUMNS = "id INT, tier INT, name STRING NOT NULL"


def create_event(**row: Any) -> str:
    return json.dumps({"before": None, "after": row, "op": "c"})


def decoded_values(*values: str, aliases: str = "level=tier, label=name", **options: str) -> Any:
    settings = {"column-aliases": aliases, **options}
    return a_format(COLUMNS, options=settings).decode(messages(*values))


def test_values_of_either_name_stand_in_the_column() -> None:
    outcome = decoded_values(
        create_event(id=1, tier=1, name="a"),
        create_event(id=2, level=2, label="b"),
        create_event(id=3, level=3, tier=9, name="c"),
        create_event(id=4, level=None, name="d"),
    )
    assert reasons_of(outcome) == {}
    assert rows_of(outcome) == [
        (0, "+I", 1, 1, "a"),
        (1, "+I", 2, 2, "b"),
        (2, "+I", 3, 3, "c"),
        (3, "+I", 4, None, "d"),
    ]
    assert outcome.drift == {}, "neither name is unknown or missing"


def test_other_columns_are_unknown_and_missing_all_the_same() -> None:
    outcome = decoded_values(create_event(id=1, level=1, name="a", more=1), aliases="level=tier")
    assert set(outcome.drift) == {(DriftKind.UNKNOWN, "more")}


def test_a_column_without_a_value_under_either_name_makes_a_bad_record() -> None:
    outcome = decoded_values(create_event(id=1, level=1), create_event(id=2, label="b"))
    assert list(reasons_of(outcome)) == [0]
    assert "column 'name' is NOT NULL" in reasons_of(outcome)[0]
    assert rows_of(outcome) == [(1, "+I", 2, None, "b")]


def test_a_captured_rename_keeps_its_column() -> None:
    """PostgreSQL renamed `tier` to `level`, and made a BIGINT of it."""
    columns = "id INT, name STRING, tier BIGINT"
    settings = {"column-aliases": "level=tier", "replica-identity": "default"}
    format_ = a_format(columns, options={**settings, "unknown-columns": "ignore"})
    rows = rows_of(format_.decode(captured_messages("debezium_pg_plain", "pg.shop.customers")))
    last = {row[2]: row[4] for row in rows if row[1] != "-D"}
    assert last[1] == 2
    assert last[3] == 5_000_000_000


@pytest.mark.parametrize(
    ("aliases", "options", "wrong"),
    [
        ("level", {}, "cannot read the aliases"),
        ("level=", {}, "cannot read the aliases"),
        ("a=tier, b=tier", {}, "cannot read the aliases"),
        ("a=tier, a=name", {}, "cannot read the aliases"),
        ("level=nope", {}, "the table has no column 'nope'"),
        ("name=tier", {}, "the table has a column 'name' of its own"),
        ("key=id", {}, "'id' is a column of the primary key"),
        ("level=tier", {"missing-columns": "stop"}, "needs missing-columns = warn or ignore"),
    ],
)
def test_wrong_aliases(aliases: str, options: dict[str, str], wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        decoded_values(create_event(id=1), aliases=aliases, **options)


def test_empty_aliases_are_left_out() -> None:
    assert parse_aliases("") == {}
    assert parse_aliases("a=b,") == {"a": "b"}
