"""A real job carries the checksum of its table's rows, by Spark's tasks and by the driver."""

from __future__ import annotations

import pytest

from stream_app.app.cli.main import main
from stream_app.table.opening import open_file_store_table
from stream_app.table.versions.base_sum_record import base_sum_record
from tests.support.jobs.job_harness import JobHarness, change

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.java]


@pytest.mark.parametrize("producer", ["input", "lookup"])
@pytest.mark.parametrize("driver_messages", [0, 5000])
def test_the_checksum_follows_each_epoch(
    harness: JobHarness, capsys: pytest.CaptureFixture[str], producer: str, driver_messages: int
) -> None:
    topic = harness.topic(change(key, "a") for key in range(20))
    options = {
        "options.changelog-producer": producer,
        "options.stream-app.row-checksum": "true",
    }
    stream = {"driver-messages": driver_messages}
    harness.configure(topic, table=options, stream=stream)
    harness.run()
    harness.send(topic, [change(1, "b", "a"), change(2, None, "a"), change(99, "z")])
    harness.run()
    table = open_file_store_table(str(harness.table))
    record = base_sum_record(table, table.snapshots.latest())
    assert (record.is_whole, record.total.row_count) == (True, len(harness.rows()))
    capsys.readouterr()
    assert main(["check", str(harness.table)]) == 0, capsys.readouterr().out
