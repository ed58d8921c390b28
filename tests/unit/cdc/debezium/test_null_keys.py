"""Debezium's messages may have null keys with ``primary-key.nullable``."""

from __future__ import annotations

import pytest

from stream_app.cdc.change_batch import TableTraits
from tests.support.messages.debezium_messages import a_format, event, messages, reasons_of, rows_of

COLUMNS = "a BIGINT, b STRING, v STRING"
MESSAGES = messages(
    event(after='{"a":null,"b":"x","v":"1"}'),
    event("u", before='{"a":null,"b":"x","v":"1"}', after='{"a":5,"b":"x","v":"2"}'),
    event("u", before='{"a":5,"b":"x","v":"2"}', after='{"a":5,"b":"x","v":"3"}'),
    event("d", before='{"a":null,"b":null,"v":"4"}'),
    event(after='{"b":"x","v":"5"}'),
    key=None,
)


@pytest.mark.parametrize("decoder", ["arrays", "auto"])
def test_a_null_is_part_of_the_key_and_a_missing_value_is_not(decoder: str) -> None:
    decode = a_format(
        COLUMNS,
        ("a", "b"),
        keeps_update_before=False,
        options={"decoder": decoder, "missing-columns": "ignore"},
        traits=TableTraits(accepts_null_keys=True),
    )
    decoded_batch = decode.decode(MESSAGES)
    assert rows_of(decoded_batch) == [
        (0, "+I", None, "x", "1"),
        (1, "-U", None, "x", "1"),
        (1, "+U", 5, "x", "2"),
        (2, "+U", 5, "x", "3"),
        (3, "-D", None, None, "4"),
    ]
    assert reasons_of(decoded_batch) == {4: "primary key column 'a' is missing"}


def test_without_the_option_a_null_in_the_key_is_a_bad_record() -> None:
    reasons = reasons_of(a_format(COLUMNS, ("a", "b")).decode(MESSAGES))
    assert {0, 3, 4} <= reasons.keys()
    assert reasons[0] == "primary key column 'a' is null"
