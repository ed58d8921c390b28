"""A source's keys and tables beside the table's: told at start, or where the record stands.

The messages are PostgreSQL's, captured with its default identity (tests/unit/cdc/debezium/
test_replica_identities.py says what was done), sent through the real broker into the whole job.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.jobs.job_bench import JobBench, Message
from tests.support.messages.debezium_messages import captured
from tests.support.messages.replica_identities import AT_THE_END, COLUMNS, FILE

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]


def of_topic(name: str) -> list[Message]:
    return [(message["key"], message["value"]) for message in captured(FILE, name).to_pylist()]


def configure(bench: JobBench, *topics: str, keys: list[str], **source: Any) -> None:
    bench.configure(
        *topics,
        source=source,
        table={"columns": COLUMNS, "primary-keys": keys},
        stream={"quarantine": str(bench.folder / "quarantine")},
    )


def rows(bench: JobBench) -> dict[int, tuple[str, str, str]]:
    rows = bench.java.read(bench.table)
    by_id = {row["id"]: (row["customer"], str(row["amount"]), row["dt"]) for row in rows}
    assert len(by_id) == len(rows), "an id is there twice"
    return by_id


def test_a_primary_key_that_the_source_does_not_know(bench: JobBench) -> None:
    topic = bench.topic(of_topic("idp.shop.orders"))
    configure(bench, topic, keys=["dt", "id"])
    error = bench.fails(code=2)
    assert "the message's key (id) lacks dt of the primary key" in error
    assert f"topic {topic}, partition 0, offset 3" in error
    assert "REPLICA IDENTITY FULL" in error
    assert "make the source's key (id) the table's primary key" in error
    assert not bench.table.exists()
    # As the source comes out of the box, with its own key.
    configure(bench, topic, keys=["id"])
    done = bench.run()
    assert rows(bench) == AT_THE_END
    assert bench.quarantine() == []
    assert "not certain" not in done.output


def test_the_first_update_stops_a_job_that_was_warned(bench: JobBench) -> None:
    messages = of_topic("idp.shop.orders")
    topic = bench.topic(messages[:3])
    configure(bench, topic, keys=["dt", "id"])
    warned = bench.run().output
    assert "a delete or an update will not be certain" in warned
    bench.send(topic, messages[3:])
    error = bench.fails(code=2)
    # Several tasks read the topic, and any of them may be the first to stop.
    assert error.startswith("the record is a")
    assert "which row it changes is not certain: the message's key (id) lacks dt" in error
    assert f"topic {topic}, partition 0, offset " in error
    bench.run("source.debezium.unproven-keys=quarantine")
    quarantined = bench.quarantine()
    assert [line["offset"] for line in quarantined] == [3, 4, 5, 8]
    assert [json.loads(line["key"]) for line in quarantined] == [
        {"id": 1},
        {"id": 2},
        {"id": 3},
        {"id": 1},
    ]
    assert all("REPLICA IDENTITY FULL" in line["reason"] for line in quarantined)


def test_topics_of_two_tables_of_the_source(bench: JobBench) -> None:
    orders = bench.topic(of_topic("idp.shop.orders"))
    full = bench.topic(of_topic("idp.shop.orders_full"))
    configure(bench, orders, full, keys=["id"])
    error = bench.fails(code=2)
    assert "postgres.shop.orders (in " in error
    assert "postgres.shop.orders_full (in " in error
    assert "source.merge-shards = true" in error
    assert not bench.table.exists()
    configure(bench, orders, full, keys=["id"], **{"merge-shards": True})
    bench.run()
    assert rows(bench) == AT_THE_END


def test_another_table_that_comes_later(bench: JobBench) -> None:
    """Behind the messages that are looked at beforehand, and in the topic of the first."""
    topic = bench.topic(of_topic("idp.shop.orders"))
    configure(bench, topic, keys=["id"])
    bench.run()
    before = bench.snapshots()
    others = of_topic("idp.shop.orders_full")
    bench.send(
        topic, of_topic("idp.shop.orders") * 3 + others * 3 + of_topic("idp.shop.orders") * 3
    )
    error = bench.fails(code=2)
    assert "2 tables of the source: postgres.shop.orders" in error
    assert f"topic {topic}, partition 0, offset 40: postgres.shop.orders_full" in error
    assert bench.snapshots() == before
    bench.run("source.merge-shards=true")
    assert rows(bench) == AT_THE_END


def of_table(name: str, key: int, op: str = "c") -> Message:
    after = None if op == "t" else {"id": key, "v": f"v{key}"}
    source = {"connector": "mysql", "db": "d", "table": name} if name else {}
    envelope = {"op": op, "before": None, "after": after, **({"source": source} if name else {})}
    return (None if op == "t" else json.dumps({"id": key}).encode(), json.dumps(envelope).encode())


@pytest.mark.parametrize("alone", [False, True])
def test_a_stranger_s_truncate_in_the_first_epoch_is_quarantined(
    bench: JobBench, alone: bool
) -> None:
    strange, ours = of_table("others", 7, "t"), [of_table("orders", key) for key in range(20)]
    first = bench.topic(ours if alone else [*ours[:9], strange, *ours[9:]])
    topics = [first, bench.topic([strange])] if alone else [first]
    bench.configure(
        *topics,
        table={"columns": "id BIGINT, v STRING", "primary-keys": ["id"]},
        stream={"quarantine": str(bench.folder / "quarantine")},
    )
    bench.run()
    assert bench.rows() == {key: f"v{key}" for key in range(20)}
    [line] = bench.quarantine()
    assert (line["topic"], line["offset"]) == (topics[-1], 0 if alone else 9)
    bench.send(first, [of_table("orders", 1, "t")])
    assert "the source table was truncated" in bench.fails()


def test_a_stranger_s_records_are_quarantined_and_the_job_goes_on(bench: JobBench) -> None:
    first = bench.topic([of_table("others", 7), *(of_table("orders", key) for key in range(20))])
    second = bench.topic([of_table("", 8)])
    bench.configure(
        *(first, second),
        table={"columns": "id BIGINT, v STRING", "primary-keys": ["id"]},
        stream={"quarantine": str(bench.folder / "quarantine")},
    )
    for _ in range(2):  # the second time with what the checkpoint remembers
        bench.run()
        assert bench.rows() == {key: f"v{key}" for key in range(20)}
        more = [of_table("others", 9), of_table("others", 9, "t"), of_table("orders", 1)]
        bench.send(first, more)
    bench.run()
    assert bench.rows() == {key: f"v{key}" for key in range(20)}
    assert {(line["topic"], line["offset"]) for line in bench.quarantine()} == {
        *((first, 0), (second, 0)),
        *((first, at) for at in (21, 22, 24, 25)),
    }
