"""What watches a job is there as its configuration says, and hears how the job ends."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.config.app_config import AppConfig, load_config
from stream_app.app.observe.watched_job import watched_job
from stream_app.errors import WrongSourceError
from stream_app.spark.ingest.held_table import HeldTable
from stream_app.spark.ingest.quarantine_writer import Quarantined
from stream_app.spark.ingest.table_feed import EpochReport
from tests.support.http_receiver import HttpReceiver, http_receiver
from tests.support.ingest_process import a_free_port, job_conf
from tests.support.small_table import StandingClock

HELD = HeldTable(since_epoch=7, begin={}, reason="no", since_ms=1, retry_ms=None)
ASIDE = Quarantined(file="f", first="", reasons={"value": 2})


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as made:
        yield made


def a_config(folder: Path, receiver: HttpReceiver, **stream: Any) -> AppConfig:
    sections: dict[str, Any] = {"source": {"kind": "files", "path": str(folder)}}
    sections["stream"] = {"webhook-url": receiver.url, "trigger": "1 second", **stream}
    return load_config(job_conf(folder, **sections), [], {})


def notices(receiver: HttpReceiver) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in receiver.posted]


def test_an_error_that_ends_the_job_is_told(tmp_path: Path, receiver: HttpReceiver) -> None:
    config = a_config(tmp_path, receiver, trigger="availableNow")
    error = WrongSourceError("the topic is gone", where="t", fix="make it")
    with pytest.raises(WrongSourceError), watched_job(config, StandingClock(1000)):
        raise error
    [notice] = notices(receiver)
    assert notice == {
        "event": "stopped", "job": "db.t", "time_ms": 1000, "reason": str(error), "is_error": True,
    }  # fmt: skip
    assert "webhook" not in {thread.name for thread in threading.enumerate()}


def test_a_job_that_has_drained_its_source_tells_nothing(
    tmp_path: Path, receiver: HttpReceiver
) -> None:
    config = a_config(tmp_path, receiver, trigger="availableNow")
    with watched_job(config, StandingClock()):
        pass
    assert notices(receiver) == []


def test_events_reach_the_webhook_under_the_names_of_their_tables(
    tmp_path: Path, receiver: HttpReceiver
) -> None:
    with watched_job(a_config(tmp_path, receiver), StandingClock()) as watched:
        watched.events.held("orders", HELD)
        watched.events.of_table("items").epoch(EpochReport(epoch=3, quarantined=ASIDE))
        watched.events.unassigned(3, ASIDE)
        watched.events.held("orders", None)
    told = [(each["event"], each.get("table")) for each in notices(receiver)]
    assert told == [
        ("held", "db.t.orders"),  # of this job of one table no table has such a name
        ("quarantine", "db.t.items"),
        ("quarantine", "db.t"),
        ("caught_up", "db.t.orders"),
        ("stopped", None),
    ]


def test_the_quarantine_and_the_disks_are_counted(tmp_path: Path, receiver: HttpReceiver) -> None:
    quarantine, port = tmp_path / "quarantine", a_free_port()
    quarantine.mkdir()
    record = {"topic": "t", "partition": 0, "offset": 1, "reason": "?", "key": "k", "value": "v"}
    (quarantine / "epoch-1.jsonl").write_text(json.dumps(record) + "\n")
    config = a_config(tmp_path, receiver, quarantine=str(quarantine), **{"metrics-port": port})
    wanted = 'stream_app_quarantine_records{table="db.t"} 1.0'
    with watched_job(config, StandingClock()):
        for _ in range(6000):  # two minutes
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
            if wanted in text:
                break
            threading.Event().wait(0.02)
    assert wanted in text
    for folder in ("warehouse", "checkpoint", "quarantine", "temporary"):
        assert f'stream_app_disk_free_bytes{{folder="{folder}",table="db.t"}}' in text
