"""Runs a job of a whole database in its process, and compares its tables with the messages."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.cli.main import main
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.table.opening import open_file_store_table
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import write_conf
from tests.support.jobs.ingest_server import Finished, IngestServer
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.messages.database_topic import Message
from tests.support.tables.snapshot_chain import check_chain


@dataclass
class DatabaseHarness:
    """A folder with one job's configuration, its warehouse and checkpoint."""

    folder: Path
    broker: EmbeddedBroker
    server: IngestServer
    prefix: str = field(default_factory=lambda: f"db{uuid.uuid4().hex[:8]}")
    conf: Path = field(init=False)

    @property
    def events_file(self) -> Path:
        return self.folder / "events.jsonl"

    def send(self, topic: str, messages: Sequence[Message], *, is_new: bool = False) -> str:
        name = f"{self.prefix}.{topic}"
        if is_new:
            new_topic(self.broker, name=name)
        produce(self.broker, name, messages)
        return name

    def configure(self, sync: Mapping[str, Any], **sections: Mapping[str, Any]) -> Path:
        defaults: dict[str, dict[str, Any]] = {
            "source": {
                "bootstrap-servers": self.broker.bootstrap,
                "topic-pattern": f"{self.prefix}[.].*",
            },
            "sync": {"warehouse": str(self.folder / "warehouse"), "database": "ods", **sync},
            "stream": {
                "checkpoint": str(self.folder / "checkpoint"),
                "quarantine": str(self.folder / "quarantine"),
                "trigger": "availableNow",
            },
            "spark": {"spark.master": "local[2]", "spark.driver.extraJavaOptions": fast_jvm()},
        }
        names = defaults | sections
        merged_sections = {
            name: {**defaults.get(name, {}), **sections.get(name, {})} for name in names
        }
        self.conf = write_conf(self.folder / "job.toml", **merged_sections)
        return self.conf

    def run(self, code: int = 0) -> Finished:
        result = self.server.run(self.conf, events=self.events_file)
        assert result.code == code, result.output
        return result

    def table(self, name: str) -> Path:
        return self.folder / "warehouse" / "ods.db" / name

    def tables(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "warehouse" / "ods.db").iterdir())

    def rows(self, name: str) -> list[dict[str, Any]]:
        table = open_file_store_table(str(self.table(name)))
        check_chain(table)
        return read_rows(table)

    def status(self) -> list[dict[str, Any]]:
        """Return what ``stream-app status`` says of the job, which does not run."""
        lines = self.tool("status", "--conf", str(self.conf), "--json").splitlines()
        return [json.loads(line) for line in lines]

    def tool(self, *words: str) -> str:
        """Return what a verb prints that runs in this process without trouble."""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            code = main(words)
        assert code == 0, output.getvalue()
        return output.getvalue()

    def quarantine(self, name: str = "") -> list[str]:
        files = sorted((self.folder / "quarantine" / name).glob("*.jsonl"))
        lines = itertools.chain.from_iterable(file.read_text().splitlines() for file in files)
        return [json.loads(line)["reason"] for line in lines]


@pytest.fixture
def database(
    tmp_path: Path, kafka_broker: EmbeddedBroker, ingest_server: IngestServer
) -> DatabaseHarness:
    return DatabaseHarness(tmp_path, kafka_broker, ingest_server)


def same(rows: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> None:
    assert by_content(rows) == by_content(expected)
