"""Driver epochs store the rows that Spark's tasks would store; tasks repeat failed ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.epochs.stages.epoch_plan import EpochPlan
from stream_app.epochs.stages.epoch_runner import EpochOutput
from stream_app.errors import WrongSourceError
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.model.traits.kind_traits import CROSS_PARTITION_KEYED
from stream_app.spark.jobs.driver_epochs import DriverEpochRunner
from stream_app.spark.jobs.range_epochs import RangeEpochRunner
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.brokers.topic_reader import settings_for
from tests.support.engines.routed_messages import a_plan
from tests.support.jobs.table_writer import read_rows
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]
COLUMNS = "k BIGINT NOT NULL, p STRING NOT NULL, offset_ BIGINT"
KEYS, CHANGES, PARTITIONS = 20, 300, 3


@pytest.fixture(autouse=True)
def thread_as_before(spark: SparkSession) -> Iterator[None]:
    """This thread has no pool and no job's description after an epoch in it."""
    yield
    for name in ("spark.scheduler.pool", "spark.job.description"):
        spark.sparkContext.setLocalProperty(name, None)  # type: ignore[arg-type]


def changes() -> list[dict[str, Any]]:
    return [
        {"k": number % KEYS, "p": f"day {number % KEYS % 2}", "offset_": number}
        for number in range(CHANGES)
    ]


def fill_topic(broker: EmbeddedBroker, odd: Sequence[bytes] = ()) -> list[OffsetRange]:
    """A topic of changes, and of values that are none; all of a key in one partition."""
    topic = new_topic(broker, partitions=PARTITIONS)
    values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for row in changes():
        value = json.dumps({"before": None, "after": row, "op": "c"}).encode()
        values[row["k"] % PARTITIONS].append(value)
    values[0] += odd
    for partition, of_partition in enumerate(values):
        produce(broker, topic, [(None, value) for value in of_partition], partition=partition)
    return [OffsetRange(topic, number, 0, len(values[number])) for number in range(PARTITIONS)]


def a_table(folder: Path) -> SmallTable:
    return small_table(folder, COLUMNS, ("p", "k"), ("p",), bucket=2)


def plan_of(small: SmallTable) -> EpochPlan:
    plan = a_plan(small.table.schema)
    return replace(plan, table_plans={0: replace(plan.table_plans[0], table=small.table)})


def jobs_of(spark: SparkSession) -> int:
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def write_epoch(
    runner: DriverEpochRunner, messages: Sequence[OffsetRange], small: SmallTable
) -> tuple[EpochOutput, int, int]:
    """Return an epoch's rows, the messages that it read, and the number of its Spark jobs."""
    plan, before = plan_of(small), jobs_of(runner.spark)
    routed_blocks = runner.route(0, messages, plan)
    output = routed_blocks.write(plan)
    return output, routed_blocks.message_count, jobs_of(runner.spark) - before


def runner_of(spark: SparkSession, broker: EmbeddedBroker, most: int) -> DriverEpochRunner:
    return DriverEpochRunner(RangeEpochRunner(spark, settings_for(broker.bootstrap), 2), most)


def rows_of(small: SmallTable, output: EpochOutput) -> list[dict[str, Any]]:
    small.committer.commit_epoch(0, output.table_outputs[0].changes)
    return sorted(read_rows(small.table), key=lambda row: int(row["k"]))


def test_the_driver_and_sparks_tasks_write_the_same(
    spark: SparkSession, kafka_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    messages = fill_topic(kafka_broker, [b"no json"])
    row_lists = []
    for most in (CHANGES, CHANGES + 1):
        small, runner = a_table(tmp_path / str(most)), runner_of(spark, kafka_broker, most)
        output, read, jobs = write_epoch(runner, messages, small)
        runner.close()
        assert read == CHANGES + 1
        assert (jobs == 0) == (most > CHANGES)
        [table] = output.table_outputs.values()
        assert table.ran_in_driver == (jobs == 0)
        assert [batch.num_rows for batch in table.bad_record_batches] == [1]
        assert table.counts.message_count == CHANGES + 1
        row_lists.append(rows_of(small, output))
    newest = {row["k"]: row for row in changes()}
    assert row_lists == [[newest[key] for key in range(KEYS)]] * 2


def test_many_bytes_and_many_buckets_are_left_to_sparks_tasks(
    spark: SparkSession, kafka_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    large = b'{"before": null, "after": {"k": 1, "p": "%s"}, "op": "x"}' % (b"x" * 900_000)
    small, runner = a_table(tmp_path / "t"), runner_of(spark, kafka_broker, 1000)
    output, read, jobs = write_epoch(runner, fill_topic(kafka_broker, [large] * 20), small)
    runner.close()
    assert (read, jobs) == (CHANGES + 20, 2)
    assert len(rows_of(small, output)) == KEYS

    many = [
        json.dumps({"before": None, "after": {"k": day, "p": f"{day}"}, "op": "c"}).encode()
        for day in range(100)
    ]
    wide, runner = a_table(tmp_path / "wide"), runner_of(spark, kafka_broker, 1000)
    output, _, jobs = write_epoch(runner, fill_topic(kafka_broker, many), wide)
    runner.close()
    assert jobs == 2
    assert len({change.bucket_id for change in output.table_outputs[0].changes}) > 100


def test_messages_that_fail_in_the_driver_run_in_sparks_tasks(
    spark: SparkSession, kafka_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    messages = fill_topic(kafka_broker)
    lost = [replace(messages[0], end=messages[0].end + 5)]
    runner = runner_of(spark, kafka_broker, 1000)
    before = jobs_of(spark)
    with pytest.raises(Exception, match=WrongSourceError.__name__):
        runner.route(0, lost, plan_of(a_table(tmp_path / "t")))
    assert jobs_of(spark) > before
    output, _, jobs = write_epoch(runner, messages, a_table(tmp_path / "u"))
    runner.close()
    assert jobs == 0, "the reader reads on"
    assert output.table_outputs[0].counts.message_count == CHANGES


def test_an_index_of_all_keys_stays_with_the_executors(tmp_path: Path) -> None:
    across = small_table(tmp_path / "a", COLUMNS, ("k",), ("p",), bucket=-1)
    assert across.table.kind_traits is CROSS_PARTITION_KEYED
    assert plan_of(across).indexes_all_keys
    assert not plan_of(a_table(tmp_path / "b")).indexes_all_keys
