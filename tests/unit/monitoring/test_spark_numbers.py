"""A job's numbers in Spark's own metrics system, and Spark's numbers at the job's endpoint."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stream_app.app.observe.metrics.job_metrics import JobMetrics
from stream_app.app.observe.monitoring.spark_numbers import (
    MAXIMA,
    SUMS,
    SparkNumbers,
    numbers_for_spark,
)
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.ingest.table_feed import EpochReport
from stream_app.table.compact.metrics import CompactionMetrics
from tests.support.full_metrics import full_metrics, metrics_of, metrics_page


def a_job() -> JobMetrics:
    """Two tables with 5 messages each; one has 7 runs in a bucket, the other 3."""
    job = JobMetrics("shop")
    for name, runs in (("a", 7), ("b", 3)):
        table = job.of_table(name)
        table.epoch(EpochReport(epoch=0, counts=DecodeCounts(messages=5)))
        numbers = CompactionMetrics(sorted_runs_max=runs, waited_s=1.5)
        table.compactions.add(table.table, partial(replace, numbers))
    return job


def test_numbers_of_all_tables_together() -> None:
    found = numbers_for_spark(a_job().registry.collect())
    assert set(found) == {*SUMS, *MAXIMA}
    assert {name.removeprefix("stream_app_"): value for name, value in found.items() if value} == {
        "messages_total": 10,
        "back_pressure_seconds_total": 3,
        "sorted_runs_max": 7,
    }


@pytest.mark.spark
def test_spark_has_the_jobs_numbers_and_the_job_has_sparks(spark: SparkSession) -> None:
    job = a_job()
    numbers = SparkNumbers(spark, job.registry)
    numbers.begin()
    job.of_table("a").epoch(EpochReport(epoch=1, counts=DecodeCounts(messages=32)))
    numbers.end()
    numbers.set()
    jvm: Any = spark.sparkContext._jvm
    system = jvm.org.apache.spark.SparkEnv.get().metricsSystem()
    source = system.getSourcesByName("AccumulatorSource").last()
    gauges = source.metricRegistry().getGauges()
    assert gauges.get("stream_app_messages_total").getValue() == 42
    assert gauges.get("stream_app_sorted_runs_max").getValue() == 7

    def found() -> dict[str, float]:
        return {
            sample.name.removeprefix("stream_app_"): sample.value
            for family in job.registry.collect()
            for sample in family.samples
        }

    assert "executors" not in found()
    job.jvm.attach(spark)
    seen = found()
    assert 0 < seen["jvm_heap_used_bytes"] <= seen["jvm_heap_max_bytes"]
    assert seen["jvm_resident_memory_bytes"] > 0
    assert seen["executors"] == 1
    assert seen["tasks_running"] >= 0, "other tests share the session"
    assert seen["jvm_threads"] > 10
    assert seen["jvm_gc_collections_total"] >= 0
    full = full_metrics()
    full.jvm.attach(spark)
    of_spark = {each for each in metrics_of(full.registry) if each.is_of_spark}
    assert of_spark == {each for each in metrics_page() if each.is_of_spark}
    job.jvm.detach()
    assert "executors" not in found()
