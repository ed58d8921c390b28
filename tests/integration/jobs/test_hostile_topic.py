"""A job continues behind messages that no decoder accepts, and keeps all of them."""

from __future__ import annotations

import pytest

from tests.support.jobs.job_harness import JobHarness, Message, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]

GOOD = 200
DEPTHS = (127, 128, 330, 600, 989, 1025, 5000)
SCHEMA = '{"type":"struct","name":"t.Envelope","doc":%s,"fields":[]}'


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def insert_message(text: str, extra: str = "") -> str:
    return f'{{"op":"c","before":null,"after":{{"id":KEY,"v":{text}{extra}}}}}'


def in_schema(text: str) -> str:
    payload = insert_message('"s"')
    return f'{{"schema":{SCHEMA % text},"payload":{payload}}}'


def hostile() -> list[tuple[str, str | None]]:
    """Messages with keys from 1,000 on; beside each its value of v, or None: it is bad."""
    messages: list[tuple[str, str | None]] = []

    def add(form: str, value: str | None) -> None:
        messages.append((form.replace("KEY", str(1000 + len(messages))), value))

    for depth in DEPTHS:
        add(insert_message(lists(depth)), None)
        add(insert_message('"x"', f',"unknown":{lists(depth)}'), None)
        add(in_schema(lists(depth)), None)
    add(insert_message(lists(120)), lists(120))
    add(in_schema(lists(120)), "s")
    for digits in (4300, 4301, 10_000):
        number = "9" * digits
        add(insert_message(number), number)
        add(in_schema(number), "s")
    again = ',"unknown":1' * 50_000
    add(insert_message('"x"', again), "x")
    add(insert_message('"x"', ',"v":"x"' * 50_000), None)
    add(insert_message("NaN"), None)
    return messages


def test_the_good_ones_land_and_the_bad_ones_keep_their_places(harness: JobHarness) -> None:
    topic = harness.topic(partitions=2)
    messages = hostile()
    good = {key: f"v{key}" for key in range(GOOD)}
    batch: list[Message] = [change(key, value) for key, value in good.items()]
    for index, (form, _) in enumerate(messages):
        batch.insert(index * 5, (b"k", form.encode()))
    harness.send(topic, batch, partition=1)
    harness.configure(topic, stream={"quarantine": str(harness.folder / "quarantine")})
    harness.run()
    stored_values = {
        1000 + index: value for index, (_, value) in enumerate(messages) if value is not None
    }
    assert harness.rows() == {**good, **stored_values}

    quarantined_records = harness.quarantine()
    bad_forms = [form for form, value in messages if value is None]
    places = [index * 5 for index, (_, value) in enumerate(messages) if value is None]
    assert [(line["topic"], line["partition"], line["offset"]) for line in quarantined_records] == [
        (topic, 1, offset) for offset in places
    ]
    assert [line["value"] for line in quarantined_records] == bad_forms
    assert {line["reason"].split(":")[0] for line in quarantined_records} == {
        "is nested too deeply", "has the field 'v' twice", "is not JSON",
    }  # fmt: skip
    [epoch] = harness.events("epoch")
    assert (epoch["bad"], epoch["decoder_errors"]) == (len(bad_forms), 0)
