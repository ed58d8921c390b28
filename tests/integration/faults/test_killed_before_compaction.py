"""A job is killed between an epoch's APPEND and its COMPACT, and gets no further message.

Until the next run readers of such a table lack rows, or followers of its changelog changes: all
tools tell how many. The next run, which reads no message, ends when nobody lacks any.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import IngestProcess, job_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.jobs.job_harness import change
from tests.support.judges.paimon_java import PaimonJava

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
ROWS = 3_000
TRIES = 4
SECONDS_MAX = 120
KINDS = {
    "first-row": {
        "options.merge-engine": "first-row",
        "options.ignore-delete": "true",
        "options.changelog-producer": "none",
    },
    "vectors": {
        "options.deletion-vectors.enabled": "true",
        "options.changelog-producer": "lookup",
    },
    "whole": {"options.changelog-producer": "full-compaction"},
}


@dataclass
class Killed:
    """A job that was killed, and what it was to store."""

    conf: Path
    table: Path
    rows: dict[int, str] = field(default_factory=dict)

    def run_verb(self, capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main(list(command))
        return code, capsys.readouterr().out


def kill_job(folder: Path, broker: EmbeddedBroker, kind: str) -> Killed:
    """Kill the job at the first APPEND of a run; if its COMPACT was faster, send more rows."""
    topic = new_topic(broker)
    conf = job_conf(
        folder,
        source={"bootstrap-servers": broker.bootstrap, "topics": [topic]},
        table=KINDS[kind],
        stream={"trigger": "0 seconds"},
    )
    killed_job = Killed(conf, folder / "warehouse" / "db.db" / "t")
    job = IngestProcess(conf, folder)
    for attempt in range(TRIES):
        new = range(attempt * ROWS, (attempt + 1) * ROWS)
        killed_job.rows |= {number: f"v{number}" for number in new}
        produce(broker, topic, [change(number, f"v{number}") for number in new])
        before = latest_id(killed_job.table)
        job.start()
        job.wait_for(lambda events: len(events) > 0)
        job.wait_for(lambda _, before=before: latest_id(killed_job.table) > before, every=0.001)  # type: ignore[misc]
        job.kill()
        if kind_of_latest(killed_job.table) == "APPEND":
            return killed_job
    raise AssertionError("each COMPACT was faster than the kill")


def latest_id(table: Path) -> int:
    names = (path.name for path in (table / "snapshot").glob("snapshot-*"))
    return max((int(name.removeprefix("snapshot-")) for name in names), default=0)


def kind_of_latest(table: Path) -> str:
    text = (table / "snapshot" / f"snapshot-{latest_id(table)}").read_text(encoding="utf-8")
    return str(json.loads(text)["commitKind"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_run_ends_when_all_is_seen(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    result = kill_job(tmp_path, kafka_broker, kind)
    rows_text = f"{ROWS:,} rows wait for a compaction"

    deadline, out = time.monotonic() + SECONDS_MAX, ""
    while "waiting " not in out:  # rows of the last ten seconds do not count
        assert time.monotonic() < deadline, out
        time.sleep(0.5)
        code, out = result.run_verb(capsys, "status", "--conf", str(result.conf))
    assert (code, rows_text in out) == (0, True), out
    code, out = result.run_verb(capsys, "check", str(result.table), "--quick")
    assert code == 3, out
    assert f"waiting-rows: {rows_text}" in out
    code, out = result.run_verb(capsys, "top", "--conf", str(result.conf), "--once")
    assert rows_text in out

    run = ingest_server.run(result.conf, "stream.trigger=availableNow")
    assert run.code == 0, run.output
    assert {row["id"]: row["v"] for row in paimon_java.read(result.table)} == result.rows
    if kind != "first-row":
        changes = [row for plan in paimon_java.changelog(result.table) for _, row in plan.changes]
        assert sorted(row["id"] for row in changes) == sorted(result.rows)
    code, out = result.run_verb(capsys, "check", str(result.table))
    assert (code, "nothing is wrong" in out) == (0, True), out
    code, out = result.run_verb(capsys, "status", "--conf", str(result.conf))
    assert "waiting" not in out.replace("waiting_rows", ""), out
