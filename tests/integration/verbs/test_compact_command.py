"""``stream-app compact`` as a shell runs it, on Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stream_app.app.observe.channels.webhook import SIGNATURE
from stream_app.app.web.actions import Actions
from stream_app.app.web.site import WarehouseSite
from stream_app.clock import SystemClock
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.snapshot import CommitKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import job_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.jobs.table_writer import CompactLater, TableWriter, assert_table_is, read_rows
from tests.support.servers.http_receiver import HttpReceiver, gunzipped_body
from tests.support.tables.small_table import Change, small_table

REPO = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.spark, pytest.mark.slow]
TIMEOUT = 240
COMMAND = [
    *(sys.executable, "-P", "-m", "stream_app", "compact"),
    *("--set", "spark.master=local[2]"),
    *("--set", f"spark.driver.extraJavaOptions={fast_jvm()}"),
]


def rows(epoch: int) -> list[Change]:
    return [("+I", {"dt": day, "k": k, "v": str(epoch)}) for day in ("a", "b") for k in range(50)]


@pytest.fixture
def writer(tmp_path: Path) -> TableWriter:
    """A write-only job's table with two partitions of two buckets."""
    table = small_table(
        tmp_path / "db.db" / "t", "dt STRING, k INT, v STRING", ("dt", "k"), ("dt",),
        bucket=2, write_only="true",
    ).table  # fmt: skip
    return TableWriter(table, CompactLater)


def levels(table: FileStoreTable) -> dict[str, list[int]]:
    levels: dict[str, list[int]] = {}
    for entry in FileStoreScan(table).live(table.snapshots.latest()):
        place = f"{table.paths.partition_path(entry.partition)} {entry.bucket}"
        levels.setdefault(place, []).append(entry.file.level)
    return {place: sorted(levels_of_bucket) for place, levels_of_bucket in sorted(levels.items())}


def test_compact_names_the_files_that_it_could_not_compact(
    writer: TableWriter, ingest_server: IngestServer
) -> None:
    for epoch in range(4):
        writer.write(rows(epoch))
    table = writer.table
    broken = next((Path(table.location) / "dt=b" / "bucket-1").iterdir())
    content = broken.read_bytes()
    broken.write_bytes(content[:100])
    result = ingest_server.compact(Path(table.location))
    assert result.code == 1, result.output
    lines = result.output.splitlines()  # with the log: spark-submit brings both together, too
    units = [line for line in lines if "full compaction, levels 0 0 0 0 → 5, 4 files" in line]
    assert sorted(line.split(": ")[0] for line in units) == [
        "dt=a bucket 0", "dt=a bucket 1", "dt=b bucket 0",
    ]  # fmt: skip
    assert any(line.startswith("3 compactions in ") for line in lines)
    assert "sorted runs of 4 buckets: 16 → 7, at most 4 → 4 in one" in lines
    assert result.error.startswith("1 buckets could not be compacted")
    assert f"{broken.name}\n" in result.output
    assert levels(table) == {"dt=a 0": [5], "dt=a 1": [5], "dt=b 0": [5], "dt=b 1": [0, 0, 0, 0]}
    broken.write_bytes(content)
    assert read_rows(table)[0]["v"] == "3"
    assert table.snapshots.latest() is not None


def test_compact_runs_as_a_service_beside_a_job(
    tmp_path: Path, writer: TableWriter, receiver: HttpReceiver
) -> None:
    """Watched as the job's configuration says: JSON lines, a webhook and OpenTelemetry."""
    table = writer.table
    conf = job_conf(
        tmp_path,
        source={"kind": "files", "path": str(tmp_path)},
        table={"warehouse": str(tmp_path)},
        stream={
            "log-format": "json",
            "webhook-url": f"{receiver.url}/hook",
            "webhook-secret": "a secret of the hook",
            "otlp-endpoint": receiver.url,
        },
    )
    process = subprocess.Popen(
        [
            *COMMAND, "t", "--conf", str(conf), "--follow",
            "--set", "continuous.discovery-interval=200ms",
            "--set", "num-sorted-run.compaction-trigger=3",
            "--set", "snapshot.num-retained.min=1000",  # a busy machine makes more than ten
        ],
        cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"}, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + TIMEOUT
        compactions = 0
        while compactions < 3:
            assert time.monotonic() < deadline, "it compacts nothing"
            assert process.poll() is None, process.communicate()
            if writer.epoch < 3 or max(map(len, levels(table).values())) < 3:
                writer.write(rows(writer.epoch))
            time.sleep(0.2)
            kinds = [
                table.snapshots.snapshot(number).commit_kind for number in table.snapshots.ids()
            ]
            compactions = kinds.count(CommitKind.COMPACT)
        os.kill(process.pid, signal.SIGTERM)
        out, errors = process.communicate(timeout=TIMEOUT)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    lines = [event["message"] for event in events if event.get("table") == "db.t"]
    assert "sorted runs of 4 buckets" in lines[-1]
    assert any("levels 0 0 0 → " in message for message in lines)
    [notice] = [request for request in receiver.requests if request.path == "/hook"]
    assert SIGNATURE in notice.headers
    assert json.loads(notice.body).items() >= {
        "event": "stopped", "job": "compact db.t", "is_error": False,
    }.items()  # fmt: skip
    traces = [
        gunzipped_body(request) for request in receiver.requests if request.path == "/v1/traces"
    ]
    assert b"idle commit" in traces[-1]
    traces = [
        gunzipped_body(request) for request in receiver.requests if request.path == "/v1/traces"
    ]
    assert any(b"idle commit" in trace for trace in traces)
    assert "a secret of the hook" not in out + errors
    writer.write(rows(writer.epoch))
    assert_table_is(writer)


@pytest.mark.variant
def test_compaction_from_the_page(tmp_path: Path) -> None:
    """The page begins the command beside the table's writers, and tells its lines."""
    orders = small_table(
        tmp_path / "shop.db" / "orders", "k INT, v STRING", ("k",),
        num_sorted_run__compaction_trigger=9,
    )  # fmt: skip
    for epoch in range(3):
        orders.commit(*[("+I", {"k": k, "v": str(epoch)}) for k in range(20)])
    site = WarehouseSite(*file_io_of(str(tmp_path)), {}, SystemClock())
    actions = Actions(site, command=COMMAND)
    try:
        run = actions.begin("shop.orders", {"action": "compact-full"})
        assert run.end_event.wait(TIMEOUT), [*run.lines]
    finally:
        actions.close()
    assert run.state == "done", [*run.lines]
    assert "sorted runs of 1 buckets: 3 → 1" in "\n".join(run.lines)
    latest = orders.table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT
    assert {row["v"] for row in read_rows(orders.table)} == {"2"}
    orders.commit(("+I", {"k": 0, "v": "later"}))
    assert len(read_rows(orders.table)) == 20
