"""A job's numbers for Prometheus: what is there, under which name, and for how long."""

from __future__ import annotations

import socket
import threading
import urllib.request
from urllib.error import URLError

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stream_app.app.job.prometheus_metrics import (
    TABLE_LABELS_MAX,
    CompactionCollector,
    JobMetrics,
    serving,
    table_label,
)
from stream_app.cdc.column_drift import DriftKind
from stream_app.errors import UsageError
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.ingest.dead_letters import SetAside
from stream_app.spark.ingest.streaming_query import SourceProgress
from stream_app.spark.ingest.table_feed import EpochReport
from stream_app.table.compact.metrics import CompactionMetrics
from tests.support.ingest_process import a_free_port
from tests.support.small_table import small_table

COMPACTIONS = CompactionMetrics(
    buckets=8, level0_files_max=4, level0_files_avg=1.5, sorted_runs_max=5, queued=2, running=1,
    begun=9, completed=4, failed=1, dropped=1, bytes_in=3072, bytes_out=2048, seconds=3.25,
    seconds_avg=0.8125, flushed_bytes=1024, waited_s=12.0,
)  # fmt: skip


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Each sample of table db.t, by its name and its other labels, as a scraper reads them."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            if sample.name.endswith("_created"):
                continue
            labels = dict(sample.labels)
            assert labels.pop("table") == "db.t"
            found[" ".join([sample.name, *labels.values()])] = sample.value
    return found


def test_epochs_and_lag() -> None:
    metrics = JobMetrics("db.t")
    before = samples(metrics.registry)
    assert before["stream_app_messages_total"] == 0, "there from the beginning"
    counts = DecodeCounts(messages=10, changes=12, skipped=1, bad=2, decoder_errors=1)
    metrics.epoch(EpochReport(epoch=0, counts=counts, wait_s=0.5, write_s=2.0, commit_s=0.25))
    metrics.epoch(EpochReport(epoch=1, counts=counts, wait_s=0.0, write_s=4.0, commit_s=0.25))
    metrics.epoch(EpochReport(epoch=1, skipped=True))
    metrics.progress(SourceProgress(1, 10, 77, {}), 1000)
    metrics.progress(SourceProgress(1, 10, None, {}), 2000)
    found = samples(metrics.registry)
    assert {name.removeprefix("stream_app_"): value for name, value in found.items()}.items() >= {
        "epochs_total": 2,
        "messages_total": 20,
        "changes_total": 24,
        "skipped_messages_total": 2,
        "bad_records_total": 4,
        "decoder_errors_total": 2,
        "lag_messages": 77,
        "source_looked_timestamp_seconds": 2,
        "epoch_seconds_sum write": 6,
        "epoch_seconds_count write": 2,
        "epoch_seconds_sum wait": 0.5,
        "epoch_seconds_bucket 2.5 write": 1,
        "epoch_seconds_bucket 5.0 write": 2,
    }.items()


def test_bad_records_by_reason_and_columns() -> None:
    metrics = JobMetrics("db.t")
    aside = SetAside(file=None, first="", reasons={"not-json": 2, "value": 1})
    for epoch in range(2):
        metrics.epoch(EpochReport(epoch=epoch, set_aside=aside))
    metrics.column(DriftKind.UNKNOWN, "phone", 3)
    metrics.column(DriftKind.UNKNOWN, "phone", 4)
    found = samples(metrics.registry)
    assert found["stream_app_bad_records_by_reason_total not-json"] == 4
    assert found["stream_app_bad_records_by_reason_total value"] == 2
    assert found["stream_app_bad_records_by_reason_total other"] == 0
    assert found["stream_app_unknown_column_records_total phone"] == 7
    assert not [name for name in found if "missing_column" in name]


def test_snapshots_by_kind(tmp_path: object) -> None:
    table = small_table(f"{tmp_path}/t", "k INT", ("k",), num_sorted_run__compaction_trigger=2)
    for _ in range(2):
        table.commit(("+I", {"k": 1}))
    table.compact()
    metrics = JobMetrics("db.t")
    metrics.committed([table.table.snapshots.snapshot(n) for n in (1, 2, 3)])
    found = samples(metrics.registry)
    assert found["stream_app_snapshots_total APPEND"] == 2
    assert found["stream_app_snapshots_total COMPACT"] == 1


def test_compactions_are_asked_for_at_each_scrape() -> None:
    registry, now = CollectorRegistry(), [None, CompactionMetrics(), COMPACTIONS]
    numbers = CompactionCollector()
    numbers.add("db.t", lambda: now.pop(0))
    registry.register(numbers)
    assert samples(registry) == {}, "before the first epoch"
    nothing = samples(registry)
    assert set(nothing.values()) == {0}
    assert "stream_app_write_amplification_ratio" not in nothing
    found = samples(registry)
    assert {name.removeprefix("stream_app_"): value for name, value in found.items()} == {
        "buckets": 8,
        "level0_files_max": 4,
        "level0_files_avg": 1.5,
        "sorted_runs_max": 5,
        "compactions_queued": 2,
        "compactions_running": 1,
        "compaction_avg_seconds": 0.8125,
        "write_amplification_ratio": 3,
        "compactions_begun_total": 9,
        "compactions_completed_total": 4,
        "compactions_failed_total": 1,
        "compactions_dropped_total": 1,
        "compaction_read_bytes_total": 3072,
        "compaction_written_bytes_total": 2048,
        "compaction_seconds_total": 3.25,
        "flushed_bytes_total": 1024,
        "back_pressure_seconds_total": 12,
    }


def test_the_endpoint_is_there_for_the_duration() -> None:
    metrics, port = JobMetrics("db.t"), a_free_port()
    threads = threading.active_count()
    url = f"http://127.0.0.1:{port}/metrics"
    with serving(metrics.registry, port), urllib.request.urlopen(url, timeout=60) as answer:
        assert 'stream_app_epochs_total{table="db.t"} 0.0' in answer.read().decode()
    with pytest.raises(URLError, match="refused"):
        urllib.request.urlopen(url, timeout=60)
    assert threading.active_count() == threads
    with serving(metrics.registry, None):
        assert threading.active_count() == threads


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("0.0.0.0", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UsageError) as told, serving(CollectorRegistry(), port):
            raise AssertionError("it must not be served")
    assert told.value.what == f"the metrics port {port} cannot be opened: Address already in use"
    assert "choose another" in told.value.fix


@pytest.mark.parametrize(
    "location", ["/a/warehouse/db.db/t", "db.db/t/", "/a/db/t"], ids=["whole", "relative", "bare"]
)
def test_the_label_is_database_and_table(location: str) -> None:
    assert table_label(location) == "db.t"


def test_each_of_many_tables_has_its_label_and_those_beyond_the_limit_one() -> None:
    job = JobMetrics("db")
    for number in range(TABLE_LABELS_MAX + 3):
        table = job.of_table(f"t{number}")
        table.epoch(EpochReport(epoch=0, counts=DecodeCounts(changes=5)))
        table.compactions.add(table.table, lambda: COMPACTIONS)
        job.held(f"t{number}", is_held=number in (1, TABLE_LABELS_MAX + 1))
    by_label = {
        (sample.name, sample.labels["table"]): sample.value
        for family in job.registry.collect()
        for sample in family.samples
    }
    changes = {label for name, label in by_label if name == "stream_app_changes_total"}
    assert len(changes) == TABLE_LABELS_MAX + 2  # and that of the job itself
    assert by_label["stream_app_changes_total", "db.t7"] == 5
    assert by_label["stream_app_changes_total", "db.(others)"] == 15
    assert by_label["stream_app_compactions_begun_total", "db.(others)"] == 27
    assert by_label["stream_app_sorted_runs_max", "db.(others)"] == 5
    held = {
        label: value for (name, label), value in by_label.items() if name.endswith("held_tables")
    }
    assert {label for label, value in held.items() if value} == {"db.t1", "db.(others)"}
    job.held("t1", is_held=False)
    assert job.registry.get_sample_value("stream_app_held_tables", {"table": "db.t1"}) == 0
    text = generate_latest(job.registry).decode()
    assert text.count("# TYPE stream_app_buckets gauge") == 1
