"""A job reports a key or a table that differs from its source's, at start or with the record.

The messages are PostgreSQL's, captured with its default identity (tests/unit/cdc/debezium/
test_replica_identities.py says what was done), sent through the real broker into the whole job.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.jobs.job_harness import JobHarness, Message
from tests.support.messages.debezium_messages import captured_messages
from tests.support.messages.replica_identities import AT_THE_END, COLUMNS, FILE

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


def of_topic(name: str) -> list[Message]:
    return [
        (message["key"], message["value"]) for message in captured_messages(FILE, name).to_pylist()
    ]


def configure(harness: JobHarness, *topics: str, keys: list[str], **source: Any) -> None:
    harness.configure(
        *topics,
        source=source,
        table={"columns": COLUMNS, "primary-keys": keys},
        stream={"quarantine": str(harness.folder / "quarantine")},
    )


def rows(harness: JobHarness) -> dict[int, tuple[str, str, str]]:
    rows = harness.java.read(harness.table)
    by_id = {row["id"]: (row["customer"], str(row["amount"]), row["dt"]) for row in rows}
    assert len(by_id) == len(rows), "an id is there twice"
    return by_id


def test_a_primary_key_that_the_source_does_not_know(harness: JobHarness) -> None:
    topic = harness.topic(of_topic("idp.shop.orders"))
    configure(harness, topic, keys=["dt", "id"])
    error = harness.fails(code=2)
    assert "the message's key (id) lacks dt of the primary key" in error
    assert f"topic {topic}, partition 0, offset 3" in error
    assert "REPLICA IDENTITY FULL" in error
    assert "make the source's key (id) the table's primary key" in error
    assert not harness.table.exists()
    # As the source comes out of the box, with its own key.
    configure(harness, topic, keys=["id"])
    result = harness.run()
    assert rows(harness) == AT_THE_END
    assert harness.quarantine() == []
    assert "not certain" not in result.output


def test_the_first_update_stops_a_job_that_was_warned(harness: JobHarness) -> None:
    messages = of_topic("idp.shop.orders")
    topic = harness.topic(messages[:3])
    configure(harness, topic, keys=["dt", "id"])
    warned_output = harness.run().output
    assert "a delete or an update will not be certain" in warned_output
    harness.send(topic, messages[3:])
    error = harness.fails(code=2)
    # Several tasks read the topic, and any of them may be the first to stop.
    assert error.startswith("the record is a")
    assert "which row it changes is not certain: the message's key (id) lacks dt" in error
    assert f"topic {topic}, partition 0, offset " in error
    harness.run("source.debezium.unproven-keys=quarantine")
    quarantined_records = harness.quarantine()
    assert [line["offset"] for line in quarantined_records] == [3, 4, 5, 8]
    assert [json.loads(line["key"]) for line in quarantined_records] == [
        {"id": 1},
        {"id": 2},
        {"id": 3},
        {"id": 1},
    ]
    assert all("REPLICA IDENTITY FULL" in line["reason"] for line in quarantined_records)


def test_topics_of_two_tables_of_the_source(harness: JobHarness) -> None:
    orders = harness.topic(of_topic("idp.shop.orders"))
    full = harness.topic(of_topic("idp.shop.orders_full"))
    configure(harness, orders, full, keys=["id"])
    error = harness.fails(code=2)
    assert "postgres.shop.orders (in " in error
    assert "postgres.shop.orders_full (in " in error
    assert "source.merge-shards = true" in error
    assert not harness.table.exists()
    configure(harness, orders, full, keys=["id"], **{"merge-shards": True})
    harness.run()
    assert rows(harness) == AT_THE_END


def test_another_table_that_comes_later(harness: JobHarness) -> None:
    """Its messages are in the first table's topic, behind those that the job reads at start."""
    topic = harness.topic(of_topic("idp.shop.orders"))
    configure(harness, topic, keys=["id"])
    harness.run()
    before = harness.snapshots()
    other_records = of_topic("idp.shop.orders_full")
    harness.send(
        topic, of_topic("idp.shop.orders") * 3 + other_records * 3 + of_topic("idp.shop.orders") * 3
    )
    error = harness.fails(code=2)
    assert "2 tables of the source: postgres.shop.orders" in error
    assert f"topic {topic}, partition 0, offset 40: postgres.shop.orders_full" in error
    assert harness.snapshots() == before
    harness.run("source.merge-shards=true")
    assert rows(harness) == AT_THE_END


def of_table(name: str, key: int, op: str = "c") -> Message:
    after = None if op == "t" else {"id": key, "v": f"v{key}"}
    source = {"connector": "mysql", "db": "d", "table": name} if name else {}
    envelope = {"op": op, "before": None, "after": after, **({"source": source} if name else {})}
    return (None if op == "t" else json.dumps({"id": key}).encode(), json.dumps(envelope).encode())


@pytest.mark.parametrize("alone", [False, True])
def test_a_stranger_s_truncate_in_the_first_epoch_is_quarantined(
    harness: JobHarness, alone: bool
) -> None:
    strange, ours = of_table("others", 7, "t"), [of_table("orders", key) for key in range(20)]
    first = harness.topic(ours if alone else [*ours[:9], strange, *ours[9:]])
    topics = [first, harness.topic([strange])] if alone else [first]
    harness.configure(
        *topics,
        table={"columns": "id BIGINT, v STRING", "primary-keys": ["id"]},
        stream={"quarantine": str(harness.folder / "quarantine")},
    )
    harness.run()
    assert harness.rows() == {key: f"v{key}" for key in range(20)}
    [line] = harness.quarantine()
    assert (line["topic"], line["offset"]) == (topics[-1], 0 if alone else 9)
    harness.send(first, [of_table("orders", 1, "t")])
    assert "the source table was truncated" in harness.fails()


def test_a_stranger_s_records_are_quarantined_and_the_job_goes_on(harness: JobHarness) -> None:
    first = harness.topic([of_table("others", 7), *(of_table("orders", key) for key in range(20))])
    second = harness.topic([of_table("", 8)])
    harness.configure(
        *(first, second),
        table={"columns": "id BIGINT, v STRING", "primary-keys": ["id"]},
        stream={"quarantine": str(harness.folder / "quarantine")},
    )
    for _ in range(2):  # the second time with what the checkpoint remembers
        harness.run()
        assert harness.rows() == {key: f"v{key}" for key in range(20)}
        more = [of_table("others", 9), of_table("others", 9, "t"), of_table("orders", 1)]
        harness.send(first, more)
    harness.run()
    assert harness.rows() == {key: f"v{key}" for key in range(20)}
    assert {(line["topic"], line["offset"]) for line in harness.quarantine()} == {
        *((first, 0), (second, 0)),
        *((first, offset) for offset in (21, 22, 24, 25)),
    }
