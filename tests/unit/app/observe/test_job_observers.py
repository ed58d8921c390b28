"""The observers of a job start with their configuration, and learn how it ended."""

from __future__ import annotations

import json
import threading
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.config.app_config import AppConfig, load_config
from stream_app.app.config.secrets import Secrets
from stream_app.app.observe.job_observers import JobObservers, job_observers
from stream_app.checkpoint.held_table import HeldTable
from stream_app.clock import Clock
from stream_app.epochs.rounds.table_listener import EpochReport
from stream_app.errors import WrongSourceError
from stream_app.quarantine.quarantine_writer import QuarantineReport
from tests.support.jobs.ingest_process import a_free_port, job_conf
from tests.support.servers.http_receiver import HttpReceiver
from tests.support.tables.small_table import StandingClock

HELD = HeldTable(since_epoch=7, start={}, reason="no", since_ms=1, retry_ms=None)
ASIDE = QuarantineReport(file="f", first_text="", reasons={"value": 2})


def a_config(folder: Path, receiver: HttpReceiver, **stream: Any) -> AppConfig:
    sections: dict[str, Any] = {"source": {"kind": "files", "path": str(folder)}}
    sections["stream"] = {"webhook-url": receiver.url, "trigger": "1 second", **stream}
    return load_config(job_conf(folder, **sections), [], {})


def observers_of(config: AppConfig, clock: Clock) -> AbstractContextManager[JobObservers]:
    return job_observers(config.job_tables, config.stream, config.secrets, clock)


def notices(receiver: HttpReceiver) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in receiver.requests]


def test_an_error_that_ends_the_job_is_reported(tmp_path: Path, receiver: HttpReceiver) -> None:
    config = a_config(tmp_path, receiver, trigger="availableNow")
    error = WrongSourceError("the topic is gone", where="t", fix="make it")
    with pytest.raises(WrongSourceError), observers_of(config, StandingClock(1000)):
        raise error
    [notice] = notices(receiver)
    assert notice == {
        "event": "stopped", "job": "db.t", "time_ms": 1000, "reason": str(error), "is_error": True,
    }  # fmt: skip
    assert "webhook" not in {thread.name for thread in threading.enumerate()}


def test_a_job_that_has_drained_its_source_sends_no_notice(
    tmp_path: Path, receiver: HttpReceiver
) -> None:
    config = a_config(tmp_path, receiver, trigger="availableNow")
    with observers_of(config, StandingClock()):
        pass
    assert notices(receiver) == []


def test_events_reach_the_webhook_under_the_names_of_their_tables(
    tmp_path: Path, receiver: HttpReceiver
) -> None:
    with observers_of(a_config(tmp_path, receiver), StandingClock()) as job:
        job.events.report_held_table("orders", HELD)
        job.events.of_table("items").on_epoch(EpochReport(epoch=3, quarantine_report=ASIDE))
        job.events.report_unassigned_messages(3, ASIDE)
        job.events.report_held_table("orders", None)
    events = [(notice["event"], notice.get("table")) for notice in notices(receiver)]
    assert events == [
        ("held", "db.t.orders"),  # of this job of one table no table has such a name
        ("quarantine", "db.t.items"),
        ("quarantine", "db.t"),
        ("caught_up", "db.t.orders"),
        ("stopped", None),
    ]


def test_events_are_appended_to_their_file_without_secrets(
    tmp_path: Path, receiver: HttpReceiver
) -> None:
    config, file = a_config(tmp_path, receiver), tmp_path / "events.jsonl"
    file.write_text("{}\n")
    tables, stream, secrets = config.job_tables, config.stream, Secrets(["very-secret"])
    with job_observers(tables, stream, secrets, StandingClock(5), file) as job:
        assert file.read_text() == "{}\n", "the job's checks come first"
        with job.writing_events():
            job.events.report_start("s3://very-secret/t", "checkpoint")
    [first_event, start_event] = map(json.loads, file.read_text().splitlines())
    assert first_event == {}
    assert (start_event["event"], start_event["table"]) == ("started", "s3://****/t")


def test_the_quarantine_and_the_disks_are_counted(tmp_path: Path, receiver: HttpReceiver) -> None:
    quarantine, port = tmp_path / "quarantine", a_free_port()
    quarantine.mkdir()
    record = {"topic": "t", "partition": 0, "offset": 1, "reason": "?", "key": "k", "value": "v"}
    (quarantine / "epoch-1.jsonl").write_text(json.dumps(record) + "\n")
    config = a_config(tmp_path, receiver, quarantine=str(quarantine), **{"metrics-port": port})
    expected = 'stream_app_quarantine_records{table="db.t"} 1.0'
    with observers_of(config, StandingClock()):
        for _ in range(6000):  # two minutes
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
            if expected in text:
                break
            threading.Event().wait(0.02)
    assert expected in text
    for folder in ("warehouse", "checkpoint", "quarantine", "temporary"):
        assert f'stream_app_disk_free_bytes{{folder="{folder}",table="db.t"}}' in text
