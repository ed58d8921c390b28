"""The job's endpoint shows Spark's metrics."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from stream_app.app.observe.metrics.job_metrics import JobMetrics
from tests.support.jobs.full_metrics import full_metrics, metrics_of, metrics_page


@pytest.mark.spark
def test_the_endpoint_has_sparks_numbers(spark: SparkSession) -> None:
    job = JobMetrics("shop")

    def samples_by_name() -> dict[str, float]:
        return {
            sample.name.removeprefix("stream_app_"): sample.value
            for family in job.registry.collect()
            for sample in family.samples
        }

    assert "executors" not in samples_by_name()
    job.jvm.attach(spark)
    samples = samples_by_name()
    assert 0 < samples["jvm_heap_used_bytes"] <= samples["jvm_heap_max_bytes"]
    assert samples["jvm_resident_memory_bytes"] > 0
    assert samples["executors"] == 1
    assert samples["tasks_running"] >= 0, "other tests share the session"
    assert samples["jvm_threads"] > 10
    assert samples["jvm_gc_collections_total"] >= 0
    full = full_metrics()
    full.jvm.attach(spark)
    of_spark = {metric for metric in metrics_of(full.registry) if metric.is_of_spark}
    assert of_spark == {metric for metric in metrics_page() if metric.is_of_spark}
    job.jvm.detach()
    assert "executors" not in samples_by_name()
