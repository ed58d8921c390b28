"""A whole job handles rows that break an expectation; Java reads the result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.jobs.job_harness import JobHarness, Message

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]

EXPECTATIONS = {
    "positive.condition": "amount > 0",
    "named.condition": "v is not null and v <> ''",
    "named.action": "drop",
    "sane.condition": "amount < 1000",
    "sane.action": "fail",
}


def order(key: int, v: str | None, amount: int, before: int | None = None) -> Message:
    """An insert; with the amount before, an update."""
    row: dict[str, Any] = {"id": key, "v": v, "amount": amount}
    old = None if before is None else {**row, "amount": before}
    source = {"connector": "mysql", "db": "shop", "table": "orders", "ts_ms": 1}
    value = {"before": old, "after": row, "op": "c" if old is None else "u", "source": source}
    return json.dumps({"id": key}).encode(), json.dumps(value).encode()


@pytest.mark.variant
def test_each_expectation_takes_its_action(harness: JobHarness) -> None:
    topic = harness.topic(
        [order(1, "one", 5), order(2, "two", 0), order(3, None, 7), order(4, "four", 8)]
    )
    harness.configure(
        topic,
        table={
            "columns": "id BIGINT NOT NULL, v STRING, amount INT",
            "primary-keys": ["id"],
        },
        stream={"quarantine": str(harness.folder / "quarantine")},
        expectations=EXPECTATIONS,
    )
    harness.run()
    harness.send(topic, [order(1, "one", -5, before=5), order(4, "vier", 9, before=8)])
    harness.run()
    assert harness.rows() == {1: "one", 4: "vier"}
    assert [bad_record["reason"] for bad_record in harness.quarantine()] == [
        "breaks the expectation 'positive': amount > 0"
    ] * 2
    assert [event["violations"] for event in harness.events("epoch")] == [
        {"positive": 1, "named": 1},
        {"positive": 1},
    ]

    harness.send(topic, [order(5, "five", 5), order(6, "six", 1000)])
    error = harness.fails()
    assert "records that break the expectation 'sane': 1" in error
    assert f"topic {topic}, partition 0, offset 7" in error
    assert harness.rows() == {1: "one", 4: "vier"}, "nothing of the epoch"

    harness.run("expectations.sane.action=quarantine")
    assert harness.rows() == {1: "one", 4: "vier", 5: "five"}
