"""`check` compares all tables of a job with their topic, which it reads once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.app_config import load_config
from stream_app.app.config.table_config import TableConfig
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.app.ops.recorded_tables import recorded_splitter
from stream_app.app.ops.source_comparison.topic_comparison import Comparison
from stream_app.epochs.stages.epoch_plan import MessageSplitter, TableMessages
from stream_app.table.check.table_check import CheckReport
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.database_job import TOPIC, DatabaseJob
from tests.support.messages.database_topic import creates

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("unsynced")]


def a_configuration(job: DatabaseJob, broker: EmbeddedBroker, path: Path) -> Path:
    path.write_text(
        f'[source]\nbootstrap-servers = "{broker.bootstrap}"\ntopics = ["{TOPIC}"]\n'
        f'[sync]\nwarehouse = "{job.sync.warehouse}"\ndatabase = "ods"\n'
        f'[stream]\ncheckpoint = "{job.config.stream.checkpoint}"\n'
    )
    return path


def test_a_table_that_fails_its_check_stops_no_other(
    tmp_path: Path, kafka_broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    job = DatabaseJob(tmp_path)
    for epoch in range(2):
        keys = range(5 * epoch, 5 * epoch + 5)
        job.run(*(creates(f"shop.{name}", [key])[0] for key in keys for name in "abc"))
    job.run(*creates("shop.a", range(20, 30)))  # b and c have not read so far
    produce(kafka_broker, new_topic(kafka_broker, name=TOPIC), job.sent)
    conf = a_configuration(job, kafka_broker, tmp_path / "job.toml")

    def checked() -> tuple[int, set[tuple[str, str]]]:
        code = main(["check", "--conf", str(conf), "--format", "jsonl"])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return code, {(line["kind"], line["where"].rpartition("/")[2]) for line in lines}

    assert checked() == (0, set())
    assert offsets_read(conf, job, tmp_path / "runs") == list(range(len(job.sent)))
    shutil.rmtree(job.sync.path("c"))
    assert checked() == (3, {("not-compared", "c")})
    job.run(*creates("shop.b", [99]))  # which the topic never got
    code, findings = checked()
    assert code == 1
    assert {kind for kind, _ in findings} == {"source", "not-compared"}
    assert main(["check", "--conf", str(conf)]) == 1
    lines = capsys.readouterr().out.splitlines()
    summary = "3 tables: findings in b; not all was compared in c; nothing is wrong in 1"
    assert [line for line in lines if "tables: " in line] == [summary]
    assert lines[0].endswith("/b"), "findings come first, after the name of their table"
    assert len(lines[lines.index(summary) :]) == 1 + 2, "details come last, a line for each table"


def offsets_read(conf: Path, job: DatabaseJob, folder: Path) -> list[int]:
    """Return the offsets that one comparison reads with little memory; nothing differs."""
    config, tables = load_config(conf, [], {}), [job.table(name) for name in "abc"]
    comparison = Comparison(str(folder), lambda *_: None, chunk_row_count=7)
    compared_tables = [comparison.add(table, config.source, TableConfig()) for table in tables]
    splitter = Recorded(recorded_splitter(config.job_tables, *tables))
    comparison.read(splitter)
    assert [finding for table in compared_tables for finding in table.findings(CheckReport())] == []
    return sorted(splitter.offsets)


@dataclass
class Recorded:
    """A splitter that remembers what it was given."""

    splitter: MessageSplitter
    offsets: list[int] = field(default_factory=list)

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        self.offsets += messages.column("offset").to_pylist()
        return self.splitter.split(messages)
