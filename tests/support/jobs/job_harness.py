"""Gives most tests of a whole job their topic, configuration, runs and judge.

tests/conftest.py imports the fixture `harness`; do not import it elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import job_conf, read_events
from tests.support.jobs.ingest_server import Finished, IngestServer
from tests.support.judges.paimon_java import PaimonJava

Message = tuple[bytes | None, bytes | None]


def change(key: int, value: str | None, before: str | None = None) -> Message:
    """Return Debezium's message of (id, v): a create, with `before` an update, of None a delete."""
    document = {
        "before": None if before is None else {"id": key, "v": before},
        "after": None if value is None else {"id": key, "v": value},
        "op": "d" if value is None else "c" if before is None else "u",
    }
    return json.dumps({"id": key}).encode(), json.dumps(document).encode()


@dataclass
class JobHarness:
    """A folder with one job's configuration, table and checkpoint, beside a broker and judges."""

    folder: Path
    broker: EmbeddedBroker
    server: IngestServer
    java: PaimonJava
    conf: Path = field(init=False)

    @property
    def table(self) -> Path:
        return self.folder / "warehouse" / "db.db" / "t"

    @property
    def events_file(self) -> Path:
        return self.folder / "events.jsonl"

    def topic(self, messages: Iterable[Message] = (), *, partitions: int = 1) -> str:
        name = new_topic(self.broker, partitions=partitions)
        self.send(name, messages)
        return name

    def send(self, topic: str, messages: Iterable[Message], partition: int | None = None) -> None:
        if messages := list(messages):
            produce(self.broker, topic, messages, partition=partition)

    def configure(self, *topics: str, **sections: Mapping[str, Any]) -> Path:
        """Write the configuration with these topics and the further `sections`."""
        source: dict[str, Any] = {"bootstrap-servers": self.broker.bootstrap}
        if topics:
            source["topics"] = list(topics)
        sections["source"] = source | dict(sections.get("source", {}))
        self.conf = job_conf(self.folder, **sections)
        return self.conf

    def run(self, *settings: str, code: int = 0) -> Finished:
        """Run the job to its end, which must come with this exit code."""
        result = self.server.run(self.conf, *settings, events=self.events_file)
        assert result.code == code, result.output
        return result

    def fails(self, *settings: str, code: int = 2) -> str:
        """Run the job, which must fail for a reason that needs a person; return its words."""
        return self.run(*settings, code=code).error

    def rows(self) -> dict[int, str]:
        """Return id → v, read by Paimon."""
        rows = self.java.read(self.table)
        rows_by_id = {row["id"]: row["v"] for row in rows}
        assert len(rows_by_id) == len(rows)
        return rows_by_id

    def changes(self) -> list[tuple[str, int, str]]:
        """Return the changelog as (kind, id, v), read by Paimon."""
        plans = self.java.changelog(self.table)
        return [(kind, row["id"], row["v"]) for plan in plans for kind, row in plan.changes]

    def snapshots(self) -> list[str]:
        """Return each snapshot's kind and identifier, such as "APPEND 0"."""
        return [
            f"{s['commitKind']} {s['commitIdentifier']}" for s in self.java.snapshots(self.table)
        ]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in read_events(self.events_file) if event["event"] == name]

    def quarantine(self) -> list[dict[str, Any]]:
        files = sorted((self.folder / "quarantine").glob("*.jsonl"))
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.fixture
def harness(
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    ingest_server: IngestServer,
    paimon_java: PaimonJava,
) -> JobHarness:
    """Return a job that writes rows (id, v) of the table db.t."""
    return JobHarness(tmp_path, kafka_broker, ingest_server, paimon_java)
