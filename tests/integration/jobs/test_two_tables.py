"""A Spark job writes two tables in one micro-batch: one shuffle, and a commit for each table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stream_app.spark.jobs.dataframe_epochs import DataFrameEpochRunner
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import TwoTables, reports
from tests.support.tables.snapshot_chain import check_chain

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def runner(spark: SparkSession) -> Iterator[DataFrameEpochRunner]:
    """Epochs in this thread, which has no pool and no job's description before and after."""
    yield DataFrameEpochRunner(spark)
    for name in ("spark.scheduler.pool", "spark.job.description"):
        spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


def test_an_epoch_that_one_table_has_is_finished_for_the_other_after_a_restart(
    spark: SparkSession, runner: DataFrameEpochRunner, tmp_path: Path
) -> None:
    tables = TwoTables(tmp_path)
    for epoch in range(2):
        tables.send(
            [{"k": number % 40, "v": f"{epoch} {number}"} for number in range(100)],
            [{"day": f"day {number % 3}", "n": number} for number in range(50)],
        )
    sent = [spark.createDataFrame(tables.messages(epoch, {"b": b"{"})) for epoch in range(2)]
    first = tables.started(runner, ends_at=(1, None))
    first.process_epoch(sent[0], 0)
    with pytest.raises(RuntimeError):
        first.process_epoch(sent[1], 1)
    orders, events = tables.tables
    assert (orders.snapshots.latest_id(), events.snapshots.latest_id()) == (2, 1)

    again = tables.started(runner)
    again.process_epoch(sent[1], 1)
    assert [
        report.is_skipped for table_index in (0, 1) for report in reports(again, table_index)
    ] == [
        True,
        False,
    ]
    assert (
        again.round_runner.totals.message_count,
        again.round_runner.totals.change_count,
        again.round_runner.totals.bad_record_count,
    ) == (
        51,
        50,
        1,
    )
    assert (orders.snapshots.latest_id(), events.snapshots.latest_id()) == (2, 2)
    for table, rows in zip(tables.tables, tables.expected_rows(), strict=True):
        check_chain(table)
        assert by_content(read_rows(table)) == by_content(rows)
    files = sorted(path.name for path in (tmp_path / "bad-b").iterdir())
    assert files == ["epoch-0.jsonl", "epoch-1.jsonl"]
    assert '"key": "key"' in (tmp_path / "bad-b" / "epoch-1.jsonl").read_text()
