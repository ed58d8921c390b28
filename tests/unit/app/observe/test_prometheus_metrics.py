"""A job gives Prometheus its numbers under their documented names, as long as they hold."""

from __future__ import annotations

import pickle
import platform
import shutil
import socket
import threading
import urllib.request
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError, URLError

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stream_app import __version__
from stream_app.app.observe.events.event_log import EventLog
from stream_app.app.observe.metrics.collectors import TablesCollector, compaction_samples
from stream_app.app.observe.metrics.endpoint import serving_metrics
from stream_app.app.observe.metrics.job_metrics import TABLE_LABELS_MAX, JobMetrics
from stream_app.app.observe.metrics.quarantine_watch import QuarantineWatch
from stream_app.cdc.change_batch import BAD_RECORD_SCHEMA
from stream_app.cdc.column_drift import DriftKind
from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.epochs.stages.decode_counts import DecodeCounts, counts_of_refused
from stream_app.epochs.stages.epoch_seconds import EpochSeconds
from stream_app.epochs.stream.running_stream import SourceProgress
from stream_app.errors import UsageError
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.table_schema import VALUE_KIND
from stream_app.quarantine.quarantine_folder import Quarantine, RecordMark, RecordOutcome
from stream_app.quarantine.quarantine_writer import QuarantineReport, QuarantineWriter
from stream_app.table.compact.compaction_metrics import CompactionMetrics
from stream_app.table.compact.compaction_report import CompactionReport
from stream_app.table.file_store_table import FileStoreTable, table_label
from tests.support.jobs.ingest_process import a_free_port
from tests.support.tables.small_table import StandingClock, small_table

REPORT = CompactionReport(
    partition="", bucket=0, reason="size ratio", levels=(0, 0), output_level=5, files_in=2,
    bytes_in=3072, files_out=1, bytes_out=2048, upgraded=0, seconds=0.8125,
)  # fmt: skip
HELD = HeldTable(since_epoch=7, start={}, reason="no", since_ms=1, retry_ms=None)
COMPACTIONS = CompactionMetrics(
    buckets=8, begun_count=9, bytes_in=3072, run_s=3.25, waited_s=12.0, file_count=40,
    level0_files_max=4, flushed_byte_count=1024, oldest_queued_age_s=90.0, oldest_running_age_s=7.0,
    level0_files=12, sorted_runs_max=5, running_count=1, completed_count=4, dropped_count=1,
    queued_count=2, failed_count=1, bytes_out=2048, sorted_runs=11, waiting_rows=7, byte_count=4096,
)  # fmt: skip


def samples(registry: CollectorRegistry) -> dict[str, float]:
    """Each sample of table db.t, by its name and its other labels, as a scraper reads them."""
    values = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            assert not sample.name.endswith("_created")
            if sample.name.startswith("process_"):
                continue
            labels = dict(sample.labels)
            if sample.name == "stream_app_build_info":
                assert labels == {"version": __version__, "python": platform.python_version()}
                continue
            assert labels.pop("table") == "db.t"
            values[" ".join([sample.name, *labels.values()])] = sample.value
    return values


def test_epochs_and_lag() -> None:
    metrics = JobMetrics("db.t")
    before = samples(metrics.registry)
    assert before["stream_app_messages_total"] == 0, "there from the beginning"
    counts = DecodeCounts(
        message_count=10, change_count=12, skipped_count=1, bad_record_count=2,
        decoder_error_count=1, kind_counts=(7, 2, 2, 1), read_s=0.25, decode_s=1.5,
    )  # fmt: skip
    parts = EpochSeconds(wait_s=0.5, read_s=0.125, decode_s=1.5, route_s=0.25, write_s=2.0)
    metrics.count_epoch(EpochReport(epoch=0, counts=counts, durations=parts, ran_in_driver=True))
    metrics.count_epoch(EpochReport(epoch=1, counts=counts, durations=EpochSeconds(write_s=4.0)))
    metrics.count_epoch(EpochReport(epoch=1, is_skipped=True))
    metrics.note_progress(SourceProgress(1, 10, 77, {}), 1000)
    metrics.note_progress(SourceProgress(1, 10, None, {}), 2000)
    values = samples(metrics.registry)
    assert {name.removeprefix("stream_app_"): value for name, value in values.items()}.items() >= {
        "epochs_total": 2,
        "driver_epochs_total": 1,
        "messages_total": 20,
        "changes_total": 24,
        "records_total +I": 14,
        "records_total -U": 4,
        "records_total +U": 4,
        "records_total -D": 2,
        "task_seconds_total read": 0.5,
        "task_seconds_total decode": 3,
        "skipped_messages_total": 2,
        "bad_records_total": 4,
        "decoder_errors_total": 2,
        "lag_messages": 77,
        "source_looked_timestamp_seconds": 2,
        "epoch_seconds_sum write": 6,
        "epoch_seconds_count write": 2,
        "epoch_seconds_sum wait": 0.5,
        "epoch_seconds_sum read": 0.125,
        "epoch_seconds_sum decode": 1.5,
        "epoch_seconds_sum route": 0.25,
        "epoch_seconds_bucket 2.5 write": 1,
        "epoch_seconds_bucket 5.0 write": 2,
    }.items()


def test_a_refused_row_of_another_kind_than_the_decoder_counted() -> None:
    """`rowkind.field` has made an insert of an update, and the writer refuses it."""
    refused_rows = pa.record_batch({VALUE_KIND: pa.array([RowKind.INSERT], pa.int8())})
    counts = DecodeCounts(change_count=1, kind_counts=(0, 0, 1, 0))
    metrics = JobMetrics("db.t")
    metrics.count_epoch(EpochReport(epoch=0, counts=counts.plus(counts_of_refused([refused_rows]))))
    values = samples(metrics.registry)
    assert values["stream_app_records_total +I"] == 0
    assert values["stream_app_changes_total"] == 0
    assert values["stream_app_bad_records_total"] == 1


def test_the_parts_of_an_epoch_of_many_tables_count_once() -> None:
    metrics = JobMetrics("db")
    parts = EpochSeconds(read_s=2.0, decode_s=1.0, commit_s=0.5)
    first = EpochReport(epoch=3, durations=parts, start_ms=10)
    again = replace(first, start_ms=20)  # read again, for a table whose schema has changed
    metrics.of_table("a").count_epoch(first)
    metrics.of_table("b").count_epoch(first)
    metrics.of_table("c").count_epoch(again)
    values = {
        (sample.labels["table"], sample.labels["part"]): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "stream_app_epoch_seconds_sum"
    }
    assert values[("db", "read")] == 4.0
    assert values[("db", "decode")] == 2.0
    assert {table for table, part in values if part != "commit"} == {"db"}
    assert [values[(f"db.{name}", "commit")] for name in "abc"] == [0.5] * 3


def test_bad_records_by_reason_and_columns() -> None:
    metrics = JobMetrics("db.t")
    aside = QuarantineReport(file=None, first_text="", reasons={"not-json": 2, "value": 1})
    for epoch in range(2):
        metrics.count_epoch(EpochReport(epoch=epoch, quarantine_report=aside))
    metrics.count_drift(DriftKind.UNKNOWN, "phone", 3)
    metrics.count_drift(DriftKind.UNKNOWN, "phone", 4)
    values = samples(metrics.registry)
    assert values["stream_app_bad_records_by_reason_total not-json"] == 4
    assert values["stream_app_bad_records_by_reason_total value"] == 2
    assert values["stream_app_bad_records_by_reason_total other"] == 0
    assert values["stream_app_unknown_column_records_total phone"] == 7
    assert not [name for name in values if "missing_column" in name]


def test_messages_without_a_table_count_as_bad_records_of_the_job() -> None:
    job = JobMetrics("db")
    aside = QuarantineReport(file="f", first_text="", reasons={"not-json": 3, "no-table": 1})
    EventLog(StandingClock(0), metrics=job).report_unassigned_messages(4, aside)
    of_job = {"table": "db"}
    assert job.registry.get_sample_value("stream_app_bad_records_total", of_job) == 4
    by_reason = {**of_job, "reason": "not-json"}
    assert job.registry.get_sample_value("stream_app_bad_records_by_reason_total", by_reason) == 3


def test_requests_to_the_store_are_counted_by_kind(tmp_path: Path) -> None:
    """The job counts its own requests, and those of a task, which returns its counts."""
    metrics = JobMetrics("db.t")
    table = small_table(tmp_path / "t", "k INT", ("k",)).table.with_counter(metrics.store.requests)
    files = table.file_io
    files.write_bytes(f"{tmp_path}/one", b"1")
    with pytest.raises(FileNotFoundError):
        files.read_bytes(f"{tmp_path}/other")
    with pytest.raises(IsADirectoryError):
        files.read_bytes(f"{tmp_path}/t")
    task: FileStoreTable = pickle.loads(pickle.dumps(table))
    task.file_io.list_names(str(tmp_path))
    assert task.store_requests() == {"list": 1}
    table.add_store_requests(task.store_requests())
    files.delete(f"{tmp_path}/one")
    values = samples(metrics.registry)
    assert {name: value for name, value in values.items() if "_store_" in name} == {
        "stream_app_store_requests_total get": 2,
        "stream_app_store_requests_total put": 1,
        "stream_app_store_requests_total list": 1,
        "stream_app_store_requests_total delete": 1,
        "stream_app_store_errors_total get": 1,
        "stream_app_store_errors_total put": 0,
        "stream_app_store_errors_total list": 0,
        "stream_app_store_errors_total delete": 0,
    }


def test_local_copies_are_counted_by_event(tmp_path: Path) -> None:
    metrics = JobMetrics("db.t")
    metrics.store.copies = tmp_path
    (tmp_path / "table" / "copy").mkdir(parents=True)
    (tmp_path / "table" / "copy" / "rows.arrow").write_bytes(b"12345")
    metrics.store.requests.add({"lookup_hit": 7, "lookup_made": 1, "lookup_copied_bytes": 100})
    values = samples(metrics.registry)
    assert {name: value for name, value in values.items() if "_lookup_" in name} == {
        "stream_app_lookup_copies_total hit": 7,
        "stream_app_lookup_copies_total miss": 0,
        "stream_app_lookup_copies_total made": 1,
        "stream_app_lookup_copies_total evicted": 0,
        "stream_app_lookup_copies_total damaged": 0,
        "stream_app_lookup_copied_bytes_total": 100,
        "stream_app_lookup_disk_bytes": 5,
    }


def test_disks_of_folders_that_are_not_made_yet(tmp_path: Path) -> None:
    folders = {"warehouse": tmp_path, "checkpoint": tmp_path / "a" / "b"}
    metrics = JobMetrics("db.t", folders=folders)
    values = samples(metrics.registry)
    for folder in folders:
        size = values[f"stream_app_disk_size_bytes {folder}"]
        assert size == shutil.disk_usage(tmp_path).total
        assert 0 < values[f"stream_app_disk_free_bytes {folder}"] <= size


def test_a_folder_that_cannot_be_looked_at_takes_no_other_number(tmp_path: Path) -> None:
    folders = {"checkpoint": tmp_path / ("x" * 5000), "warehouse": tmp_path}
    metrics = JobMetrics("db.t", folders=folders)
    assert samples(metrics.registry)["stream_app_disk_size_bytes warehouse"] > 0


def test_records_that_wait_in_quarantine(tmp_path: Path) -> None:
    """The metric counts records of a table and of no table, again when the folder has changed."""
    metrics = JobMetrics("db")

    def quarantine_records(folder: Path, epoch: int, *offsets: int) -> None:
        rows = [{"topic": "t", "partition": 0, "offset": n, "reason": "?"} for n in offsets]
        bad_records = pa.Table.from_pylist(rows, BAD_RECORD_SCHEMA)
        QuarantineWriter(JobFolder(*file_io_of(str(folder))), None).write(epoch, bad_records)

    def waiting() -> dict[str, float]:
        watch.count_records()
        return {
            sample.labels["table"]: sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == "stream_app_quarantine_records"
        }

    quarantine = Quarantine(*file_io_of(str(tmp_path)))
    watch = QuarantineWatch(quarantine, StandingClock(0), metrics.set_unresolved_records)
    assert waiting() == {"db": 0}
    (tmp_path / "orders").mkdir()
    quarantine_records(tmp_path / "orders", 1, 5, 6)
    quarantine_records(tmp_path / "orders", 2, 7)
    quarantine_records(tmp_path, 2, 8)
    assert waiting() == {"db": 1, "db.orders": 3}
    orders = quarantine.of_table("orders")
    first, second, _ = orders.records()
    identities = (first.identity, second.identity)
    orders.write_mark(
        RecordMark(name="m", records=identities, outcomes=(RecordOutcome.DROPPED,) * 2)
    )
    assert waiting() == {"db": 1, "db.orders": 1}


def test_snapshots_by_kind(tmp_path: object) -> None:
    table = small_table(f"{tmp_path}/t", "k INT", ("k",), num_sorted_run__compaction_trigger=2)
    for _ in range(2):
        table.commit(("+I", {"k": 1}))
    table.compact()
    metrics = JobMetrics("db.t")
    snapshots = [table.table.snapshots.snapshot(n) for n in (1, 2, 3)]
    metrics.count_commits(snapshots, (REPORT,))
    values = samples(metrics.registry)
    assert values["stream_app_last_commit_timestamp_seconds"] == snapshots[-1].time_ms / 1000
    assert values["stream_app_table_records"] == 1
    assert values["stream_app_compaction_duration_seconds_sum"] == 0.8125
    assert values["stream_app_compaction_duration_seconds_bucket 0.5"] == 0
    assert values["stream_app_compaction_duration_seconds_bucket 1.0"] == 1
    assert values["stream_app_snapshots_total APPEND"] == 2
    assert values["stream_app_snapshots_total COMPACT"] == 1


def test_compactions_are_asked_for_at_each_scrape() -> None:
    registry, now = CollectorRegistry(), [None, CompactionMetrics(), COMPACTIONS]
    collector = TablesCollector(compaction_samples)
    collector.add("db.t", lambda: now.pop(0))
    registry.register(collector)
    assert samples(registry) == {}, "before the first epoch"
    nothing = samples(registry)
    assert set(nothing.values()) == {0}
    assert "stream_app_write_amplification_ratio" not in nothing
    values = samples(registry)
    assert {name.removeprefix("stream_app_"): value for name, value in values.items()} == {
        "buckets": 8,
        "level0_files_max": 4,
        "level0_files": 12,
        "sorted_runs_max": 5,
        "sorted_runs": 11,
        "waiting_rows": 7,
        "table_files": 40,
        "table_bytes": 4096,
        "compaction_queue_age_seconds": 90,
        "compaction_running_age_seconds": 7,
        "compactions_queued": 2,
        "compactions_running": 1,
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
    threads = set(threading.enumerate())
    url = f"http://127.0.0.1:{port}/metrics"
    with serving_metrics(metrics.registry, port):
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert 'stream_app_epochs_total{table="db.t"} 0.0' in answer.read().decode()
        for mistyped_path in ("", "/", "/metrics/", "/ready", "/readyz/"):
            with pytest.raises(HTTPError, match="404"):
                urllib.request.urlopen(url.removesuffix("/metrics") + mistyped_path, timeout=60)
    with pytest.raises(URLError, match="refused"):
        urllib.request.urlopen(url, timeout=60)
    assert set(threading.enumerate()) <= threads
    with serving_metrics(metrics.registry, None):
        assert set(threading.enumerate()) <= threads


def test_numbers_that_cannot_be_read_are_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> CompactionMetrics:
        raise RuntimeError("no numbers")

    metrics, port = JobMetrics("db.t"), a_free_port()
    with serving_metrics(metrics.registry, port):
        metrics.compactions.add("db.t", broken)
        for _ in range(3):
            with pytest.raises(HTTPError, match="500"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)
    [record] = caplog.records
    assert record.getMessage() == "/metrics cannot be answered (the log says so once)"


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken_port:
        taken_port.bind(("0.0.0.0", 0))
        taken_port.listen()
        port = taken_port.getsockname()[1]
        with pytest.raises(UsageError) as raised, serving_metrics(CollectorRegistry(), port):
            raise AssertionError("it must not be served")
    problem = f"the metrics port {port} cannot be opened: Address already in use"
    assert (raised.value.problem, "choose another" in raised.value.fix) == (problem, True)


@pytest.mark.parametrize(
    "location", ["/a/warehouse/db.db/t", "db.db/t/", "/a/db/t"], ids=["whole", "relative", "bare"]
)
def test_the_label_is_database_and_table(location: str) -> None:
    assert table_label(location) == "db.t"


def test_each_of_many_tables_has_its_label_and_those_beyond_the_limit_one() -> None:
    job = JobMetrics("db")
    for number in range(TABLE_LABELS_MAX + 3):
        table = job.of_table(f"t{number}")
        table.count_epoch(EpochReport(epoch=0, counts=DecodeCounts(change_count=5)))
        table.compactions.add(table.label, lambda: COMPACTIONS)
        job.note_held_table(f"t{number}", HELD if number in (1, TABLE_LABELS_MAX + 1) else None)
    by_label = {
        (sample.name, sample.labels.get("table", "")): sample.value
        for family in job.registry.collect()
        for sample in family.samples
    }
    changes = {label for name, label in by_label if name == "stream_app_changes_total"}
    assert len(changes) == TABLE_LABELS_MAX + 2  # and that of the job itself
    assert by_label["stream_app_changes_total", "db.t7"] == 5
    assert by_label["stream_app_changes_total", "db.(others)"] == 15
    assert by_label["stream_app_compactions_begun_total", "db.(others)"] == 27
    assert by_label["stream_app_sorted_runs_max", "db.(others)"] == 5
    held_values = {
        label: value for (name, label), value in by_label.items() if name.endswith("held_tables")
    }
    assert {label for label, value in held_values.items() if value} == {"db.t1", "db.(others)"}
    job.note_held_table("t1", None)
    assert job.registry.get_sample_value("stream_app_held_tables", {"table": "db.t1"}) == 0
    text = generate_latest(job.registry).decode()
    assert text.count("# TYPE stream_app_buckets gauge") == 1
