"""A job reports columns that come and go, bad records, and that it has caught up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.jobs.job_harness import JobHarness, Message, change

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
NO_JSON: Message = (b"k", b"no json")


def image(key: int, **columns: Any) -> Message:
    value = json.dumps({"before": None, "after": {"id": key, **columns}, "op": "c"})
    return json.dumps({"id": key}).encode(), value.encode()


def warnings(output: str) -> list[str]:
    return [line.split(" WARNING ", 1)[1] for line in output.splitlines() if " WARNING " in line]


def test_columns_bad_records_and_the_end(harness: JobHarness) -> None:
    topic = harness.topic([change(1, "a"), image(2, v="b", phone=1), image(3), image(4, phone=2)])
    harness.send(topic, [NO_JSON])
    folder = harness.folder / "quarantine"
    harness.configure(topic, stream={"quarantine": str(folder)})
    result = harness.run()
    bad_warning, phone, v = warnings(result.output)
    first = f"the first is topic {topic}, partition 0, offset"
    assert phone.startswith("column 'phone' is not in the table, so its values are left out")
    assert phone.endswith(f"{first} 1")
    assert v.startswith("column 'v' of the table is missing in messages, so it becomes null")
    assert v.endswith(f"{first} 2")
    assert bad_warning == (
        f"epoch 0: bad records: 1 (1 not-json), kept in {folder}/epoch-0.jsonl; {first} 4: "
        "is not JSON: Expecting value at character 0"
    )
    (epoch,) = harness.events("epoch")
    assert epoch["unknown_columns"] == {"phone": 2}
    assert epoch["missing_columns"] == {"v": 2}
    assert epoch["bad_reasons"] == {"not-json": 1}
    assert epoch["quarantine_file"] == f"{folder}/epoch-0.jsonl"
    assert harness.rows() == {1: "a", 2: "b", 3: None, 4: None}
    assert "caught up with the source, epochs in this run: 1; lag 0, next" in result.output

    result = harness.run()
    assert "caught up with the source, there was nothing new; lag 0, next offsets" in result.output
    end_status = {"epochs": 0, "lag": 0, "end_offsets": {topic: {"0": 5}}}
    assert harness.events("drained")[-1].items() >= end_status.items()

    harness.send(topic, [NO_JSON, NO_JSON])
    error = harness.fails(code=1)
    assert error.startswith("all 2 records of this run are bad; none is in the table\n")
    assert f"  where: stream.quarantine: {folder}\n  to fix: " in error
    assert "there was nothing new" in harness.run().output

    harness.send(topic, [change(5, "c"), image(6, v="d", phone=3)])
    error = harness.fails("source.debezium.unknown-columns=stop")
    assert error.startswith("the record's columns are not the table's: column 'phone' is not in")
    assert f"  where: topic {topic}, partition 0, offset 8\n  to fix: " in error
    result = harness.run("source.debezium.unknown-columns=quarantine")
    assert harness.events("epoch")[-1]["bad_reasons"] == {"unknown-column": 1}
    assert len(warnings(result.output)) == 1
    assert [line["offset"] for line in harness.quarantine()] == [4, 5, 6, 8]
    assert harness.rows() == {1: "a", 2: "b", 3: None, 4: None, 5: "c"}
