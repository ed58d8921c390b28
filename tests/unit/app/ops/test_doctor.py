"""The doctor finds each problem, and says how to fix it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from stream_app.app.cli.main import main
from stream_app.app.config.app_config import AppConfig, load_config
from stream_app.app.ops.doctor import machine
from stream_app.app.ops.doctor.observation import Observation, Severity, guarded_observations
from stream_app.app.ops.doctor.table_examination import database_observations
from stream_app.checkpoint.checkpoint_owner import claim_checkpoint
from stream_app.checkpoint.epoch_log import LOST_FIX
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.clock import SystemClock
from stream_app.errors import FAILED
from tests.support.jobs.examined_job import examination_of
from tests.support.servers.s3_server import S3Server
from tests.support.tables.small_table import StandingClock, small_table

GIB = 1 << 30
CONFIGURATION = """
[source]
kind = "files"
path = "{folder}/records"
[table]
warehouse = "{folder}/warehouse"
database = "db"
name = "t"
columns = "k INT, v STRING"
primary-keys = ["k"]
options.bucket = "1"
[stream]
checkpoint = "{folder}/checkpoint"
quarantine = "{folder}/quarantine"
"""


@dataclass
class Job:
    """A job's configuration in a folder."""

    folder: Path
    settings: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def conf(self) -> Path:
        path = self.folder / "job.toml"
        path.write_text(CONFIGURATION.format(folder=self.folder))
        return path

    def table(self, columns: str = "k INT, v STRING", **options: Any) -> Any:
        return small_table(self.folder / "warehouse/db.db/t", columns, ("k",), **options)

    def config(self) -> AppConfig:
        return load_config(self.conf, self.settings, self.environ)

    def seen(self, subject: str) -> list[Observation]:
        examination = examination_of(self.config(), SystemClock())
        return [
            observation
            for observation in examination.observations()
            if observation.subject == subject
        ]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def only_observation(observations: list[Observation]) -> Observation:
    [observation] = observations
    return observation


@pytest.mark.java
def test_a_healthy_job_makes_nothing(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    conf = job.conf
    before = sorted(job.folder.rglob("*"))
    assert main(["doctor", "--conf", str(conf)]) == 0
    output = capsys.readouterr().out
    assert "problem" not in output
    parts = [line.split()[1] for line in output.splitlines() if line[0] != " "]
    assert [*dict.fromkeys(parts)] == [
        "java", "python", "memory", "disk", "warehouse", "checkpoint", "quarantine", "table",
    ]  # fmt: skip
    assert "will be created" in output
    assert sorted(job.folder.rglob("*")) == before


def test_a_warehouse_that_is_a_name_is_not_a_folder(job: Job) -> None:
    job.settings = ["catalog.metastore=rest", "catalog.uri=http://127.0.0.1:1"]
    job.settings += ["catalog.token.provider=bear"]
    job.environ = {"STREAM_APP_CATALOG__TOKEN": "swordfish"}
    observations = list(examination_of(job.config(), SystemClock()).observations())
    assert {"disk", "warehouse"}.isdisjoint(observation.subject for observation in observations)
    assert (
        "127.0.0.1:1"
        in only_observation(
            [observation for observation in observations if observation.subject == "catalog"]
        ).text
    )


def test_a_table_that_does_not_fit_is_a_problem(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    job.table("k INT, w STRING")
    observation = only_observation(job.seen("table"))
    assert observation.severity is Severity.PROBLEM
    assert "the table has no column 'v'" in observation.text
    assert (
        observation.fix
        == "correct keys and options in the configuration, or give another table name"
    )
    assert main(["doctor", "--conf", str(job.conf)]) == FAILED
    assert "to fix: correct keys and options in the configuration" in capsys.readouterr().out


def test_a_table_that_fits_is_listed_with_its_snapshot(job: Job) -> None:
    job.table().commit(("+I", {"k": 1, "v": "a"}))
    observation = only_observation(job.seen("table"))
    assert observation.severity is Severity.OK
    assert observation.text.endswith("fits the configuration: snapshot 1")


def test_doctor_reports_an_iceberg_catalog_behind_the_table(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    database = job.folder / "catalog.db"
    options = {
        "metadata.iceberg.storage": "hadoop-catalog",
        "metadata.iceberg.sql.uri": f"jdbc:sqlite:{database}",
    }
    table = job.table(**options)
    assert job.seen("iceberg") == []
    database.mkdir()  # nobody can open it
    table.commit(("+I", {"k": 1, "v": "a"}))
    assert "do not see snapshot 1" in caplog.text
    away = only_observation(job.seen("iceberg"))
    assert (away.severity, "unable to open" in away.text) == (Severity.WARNING, True)
    database.rmdir()
    behind = only_observation(job.seen("iceberg"))
    assert behind.severity is Severity.WARNING
    assert behind.text == ("the Iceberg catalog has no snapshot, and the table has snapshot 1")
    table.commit(("+I", {"k": 2, "v": "a"}))
    assert only_observation(job.seen("iceberg")).text == "the Iceberg catalog has snapshot 2"


def test_a_checkpoint_of_another_table_is_a_problem(job: Job) -> None:
    table = job.table().table
    folder = JobFolder(str(job.folder / "checkpoint"), table.file_io)
    (job.folder / "checkpoint").mkdir()
    assert [observation.text for observation in job.seen("checkpoint")][-1].startswith("new: ")
    claim_checkpoint(JobStateFile(folder), table.location, table.identity())
    assert job.seen("checkpoint")[-1].text == "belongs to this job, which continues where it was"
    claim_checkpoint(
        JobStateFile(JobFolder(str(job.folder / "other"), table.file_io)), "/elsewhere", "other"
    )
    (job.folder / "checkpoint").rename(job.folder / "own")
    (job.folder / "other").rename(job.folder / "checkpoint")
    observation = job.seen("checkpoint")[-1]
    assert observation.severity is Severity.PROBLEM
    assert "belongs to the table /elsewhere" in observation.text


def test_a_checkpoint_whose_table_is_gone_is_a_problem(job: Job) -> None:
    """The job would make a new table, and then refuse the checkpoint."""
    table = job.table().table
    folder = JobFolder(str(job.folder / "checkpoint"), table.file_io)
    claim_checkpoint(JobStateFile(folder), table.location, table.identity())
    shutil.rmtree(job.folder / "warehouse/db.db/t")
    observation = job.seen("checkpoint")[-1]
    assert observation.severity is Severity.PROBLEM
    assert "dropped" in observation.text


def test_a_damaged_checkpoint_is_a_problem(job: Job) -> None:
    (job.folder / "checkpoint").mkdir()
    (job.folder / "checkpoint/job_state.json").write_text("{")
    observation = job.seen("checkpoint")[-1]
    assert observation.severity is Severity.PROBLEM
    assert "job_state.json of the checkpoint is damaged" in observation.text


def test_files_that_a_power_cut_left_empty_are_a_problem(job: Job) -> None:
    (job.folder / "checkpoint/offsets").mkdir(parents=True)
    for name in ("metadata", "offsets/3"):
        (job.folder / "checkpoint" / name).write_bytes(b"\0" * 8)
    observation = job.seen("checkpoint")[-1]
    assert observation.severity is Severity.PROBLEM
    assert observation.text == (
        "the checkpoint has empty files, as after a power cut: metadata, offsets/3"
    )
    assert observation.fix == LOST_FIX


@pytest.mark.parametrize("subject", ["checkpoint", "quarantine"])
def test_a_folder_that_only_spark_reaches_is_a_warning(job: Job, subject: str) -> None:
    job.settings.append(f"stream.{subject}=gs://bucket/folder")
    observation = only_observation(job.seen(subject))
    assert observation.severity is Severity.WARNING
    assert "only Spark reaches gs://bucket/folder" in observation.text


def test_a_store_that_cannot_be_written_is_a_problem(job: Job) -> None:
    (job.folder / "warehouse").write_text("a file")
    assert only_observation(job.seen("warehouse")).severity is Severity.PROBLEM


def on_s3(job: Job, s3: S3Server) -> str:
    bucket = s3.new_bucket()
    job.settings.append(f"table.warehouse=s3://{bucket}/lake")
    job.environ |= {
        f"STREAM_APP_FILE_SYSTEM__{key.upper().replace('.', '__').replace('-', '_')}": value
        for key, value in s3.options.items()
    }
    return bucket


def test_a_store_is_really_tried_and_left_clean(job: Job, s3: S3Server) -> None:
    bucket = on_s3(job, s3)
    written, clock = job.seen("warehouse")
    assert [written.severity, clock.severity] == [Severity.OK, Severity.OK]
    assert clock.text == "the time of the store agrees with this machine's clock"
    assert not s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_bucket(bucket).keys


def test_a_store_that_takes_every_put_is_a_problem(job: Job, s3: S3Server) -> None:
    on_s3(job, s3)
    s3.ignores_conditions = True
    observation = only_observation(job.seen("warehouse"))
    assert observation.severity is Severity.PROBLEM
    assert "cannot create a file only if none exists" in observation.text


def test_a_store_that_refuses_the_user_is_a_problem(job: Job, s3: S3Server) -> None:
    on_s3(job, s3)
    s3.error = (403, "AccessDenied")
    assert only_observation(job.seen("warehouse")).severity is Severity.PROBLEM


def test_a_clock_that_is_apart_is_a_warning(job: Job) -> None:
    now_ms = SystemClock().now_ms()
    examination = examination_of(load_config(job.conf, [], {}), StandingClock(now_ms + 60_000))
    observations = [
        observation
        for observation in examination.observations()
        if observation.subject == "warehouse"
    ]
    assert [observation.severity for observation in observations] == [Severity.OK, Severity.WARNING]
    assert re.search(r"the store is (59|60|61) s behind this machine's clock", observations[1].text)


def test_a_file_that_the_latest_snapshot_needs_and_is_gone_is_a_problem(job: Job) -> None:
    """The doctor reports it for one table, and for the tables of a database."""
    table = job.table()
    table.commit(("+I", {"k": 1, "v": "a"}))
    [data] = (job.folder / "warehouse/db.db/t").glob("bucket-0/data-*")
    data.unlink()
    observations = job.seen("table")
    assert [observation.severity for observation in observations] == [Severity.OK, Severity.PROBLEM]
    assert observations[1].text.startswith(f"a file is missing ({data})")
    assert (
        list(database_observations(job.config().job_tables, {"t": table.path})) == observations[1:]
    )
    (job.folder / "warehouse/db.db/t/snapshot/snapshot-1").write_text("{")
    assert [observation.severity for observation in job.seen("table")] == [Severity.PROBLEM]


def test_a_broker_that_is_away_stops_no_other_part(
    job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["source.kind=kafka", "source.bootstrap-servers=127.0.0.1:1", "source.topics=t"]
    flags = [word for setting in settings for word in ("--set", setting)]
    conf = job.conf
    conf.write_text(conf.read_text().replace('kind = "files"\n', "").replace("path =", "#"))
    assert main(["doctor", "--conf", str(conf), *flags]) == FAILED
    output = capsys.readouterr().out
    assert "no Kafka broker can be reached: 127.0.0.1:1" in output
    assert "ok       table" in output


@pytest.mark.parametrize(
    ("spark", "severities"),
    [
        ({}, ["ok"]),
        ({"spark.master": "local[2]", "spark.driver.memory": "2g"}, ["ok"]),
        ({"spark.driver.memory": "6g"}, ["warning"]),
        ({"spark.driver.memory": "6144"}, ["warning"]),
        ({"spark.master": "local[24]"}, ["warning"]),
        ({"spark.master": "local", "spark.driver.memory": "5g"}, ["ok"]),
        ({"spark.driver.memory": "much"}, ["problem"]),
        ({"spark.master": "yarn"}, ["ok", "ok"]),
        ({"spark.master": "yarn", "spark.executor.cores": "2"}, ["ok", "warning"]),
        (
            {
                "spark.master": "yarn",
                "spark.executor.cores": "2",
                "spark.executor.memoryOverhead": "1g",
            },
            ["ok", "ok"],
        ),
        ({"spark.master": "yarn", "spark.executor.memory": "x"}, ["ok", "problem"]),
        ({"spark.master": "yarn", "spark.executor.cores": "x"}, ["ok", "problem"]),
    ],
)
def test_memory_has_to_be_left_for_the_write_buffers(
    spark: Mapping[str, str], severities: list[str]
) -> None:
    """The machine has 8 GiB and 4 cores, and the buffers have 256 MiB each."""
    observations = machine.memory_observations(spark, 8 * GIB, 256 << 20, 4)
    assert [observation.severity.value for observation in observations] == severities


@pytest.mark.parametrize(
    ("output", "severity", "words"),
    [
        ('openjdk version "17.0.9" 2023-10-17', Severity.OK, "17.0.9"),
        ('openjdk version "11.0.2" 2019-01-15', Severity.PROBLEM, "is Java 11"),
        ("nothing", Severity.PROBLEM, "does not print its version"),
    ],
)
def test_java_must_be_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, severity: Severity, words: str
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    observation = only_observation(list(machine.java_observations()))
    assert (observation.severity, words in observation.text) == (severity, True)


def test_without_java_doctor_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    observation = only_observation(list(guarded_observations("java", machine.java_observations)))
    assert observation.severity is Severity.PROBLEM
    assert "install Java 17" in observation.fix


def test_a_full_disk_is_a_warning(tmp_path: Path) -> None:
    observation = only_observation(
        list(machine.disk_observations(str(tmp_path / "not" / "there"), free_min=1 << 62))
    )
    assert observation.severity is Severity.WARNING
    assert str(tmp_path) in observation.text
    assert not list(machine.disk_observations("s3://bucket/warehouse"))
