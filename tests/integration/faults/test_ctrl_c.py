"""Ctrl-C ends a command soon and quietly at any moment, with all of its processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.jobs.ingest_process import ROOT, job_conf
from tests.support.jobs.interrupted_command import interrupt, processes_about
from tests.support.tables.small_table import small_table

COMMAND = (sys.executable, "-P", "-m", "stream_app")
ENDED = "aborted: the next start"
UNRECORDED = "the stream ended before Spark had noted its last epoch"
"""Where Ctrl-C strikes in the middle of an epoch: how long a start takes depends on the machine."""


def a_job(folder: Path, rows: int) -> tuple[str | Path, ...]:
    """`ingest` from files, until it is stopped."""
    (folder / "in").mkdir()
    with (folder / "in" / "a.jsonl").open("w") as sink:
        for k in range(rows):
            value = rf"{{\"op\":\"c\",\"after\":{{\"id\":{k},\"v\":\"a\"}},\"ts_ms\":1}}"
            place = f'"topic":"t","partition":0,"offset":{k},"key":null'
            sink.write(f'{{{place},"value":"{value}"}}\n')
    conf = job_conf(
        folder,
        source={"kind": "files", "path": str(folder / "in")},
        stream={"trigger": "1 second"},
    )
    return (*COMMAND, "ingest", "--conf", conf)


def spark_log(folder: Path) -> dict[str, str]:
    return {"STREAM_APP_SPARK_LOG": str(folder / "log" / "spark.log")}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "after_s"),
    [
        (None, 0.15),  # Python reads its modules
        ("starting Spark", 0.7),  # the JVM starts
        ("starting Spark", 4.0),  # the driver starts
        ("writing ", 0.3),  # the first epoch
        ("lag ", 2.0),  # nothing comes in
    ],
)
def test_ctrl_c_ends_a_job_in_each_phase(tmp_path: Path, when: str | None, after_s: float) -> None:
    command = a_job(tmp_path, 200)
    result = interrupt(command, tmp_path, when=when, after_s=after_s, environ=spark_log(tmp_path))
    result.check()
    unexpected_output = result.output
    for text in (ENDED, UNRECORDED):
        unexpected_output = unexpected_output.replace(f"WARNING {text}", "")
    assert "WARN" not in unexpected_output
    if when is not None:
        assert f"its own log is {tmp_path / 'log' / 'spark.log'}" in result.output
        assert (tmp_path / "log" / "spark.log").exists()
    assert processes_about(tmp_path) == []
    if when == "lag ":
        assert result.code == 0
        assert result.output.rstrip().endswith("ended")


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_in_the_middle_of_a_long_epoch(tmp_path: Path) -> None:
    """The interrupt cuts the epoch off, and the next start does it again."""
    command = a_job(tmp_path, 400_000)
    result = interrupt(command, tmp_path, when="writing ", after_s=3, environ=spark_log(tmp_path))
    result.check()
    assert (result.code == 130) == (ENDED in result.output)
    assert processes_about(tmp_path) == []


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "after_s"),
    [pytest.param("starting Spark", 2.0, marks=pytest.mark.variant), ("following ", 1.0)],
)
def test_a_compaction_that_follows(tmp_path: Path, when: str, after_s: float) -> None:
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    table.commit(("+I", {"k": 1, "v": "a"}))
    command = (*COMMAND, "compact", table.path, "--follow")
    result = interrupt(command, tmp_path, when=when, after_s=after_s, environ=spark_log(tmp_path))
    result.check()
    assert processes_about(tmp_path) == []


@pytest.fixture(scope="module")
def large_table(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("large") / "db.db" / "t"
    table = small_table(folder, "k INT, v STRING", ("k",), changelog_producer="input")
    table.commit(*(("+I", {"k": k, "v": "x" * 200}) for k in range(300_000)))
    return table.path


@pytest.mark.parametrize("verb", ["read", "changelog --follow"])
@pytest.mark.parametrize("after_s", [0.1, 0.5, 1.2])
def test_ctrl_c_ends_a_reader(large_table: str, tmp_path: Path, verb: str, after_s: float) -> None:
    name, *more = verb.split()
    command = (*COMMAND, name, large_table, *more)
    interrupt(command, tmp_path, after_s=after_s, may_end=name == "read").check()


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "after_s"),
    [
        pytest.param("starting a Kafka broker", 1.0, marks=pytest.mark.variant),
        ("starting the job", 8.0),
    ],
)
def test_ctrl_c_ends_the_demo_with_its_processes(tmp_path: Path, when: str, after_s: float) -> None:
    command = (sys.executable, "-P", "-m", "stream_app", "demo", "--records", "20000")
    result = interrupt(command, tmp_path, when=when, after_s=after_s)
    result.check()
    assert result.code == 130
    assert processes_about(tmp_path) == [], "neither broker nor job continues"


@pytest.mark.slow
@pytest.mark.parametrize(("when", "after_s"), [("making ", 0.5), ("fetching ", 0.8)])
def test_ctrl_c_ends_the_setup_of_the_environment(
    tmp_path: Path, when: str, after_s: float
) -> None:
    """The next start finds the mark, and makes the half-made environment again."""
    environ = {"STREAM_APP_VENV": str(tmp_path / "venv"), "PIP_NO_CACHE_DIR": "1"}
    result = interrupt(
        (ROOT / "run.sh", "demo"), tmp_path, when=when, after_s=after_s, environ=environ
    )
    result.check()
    assert result.code == 130
    assert not (tmp_path / "venv" / "stamp-run").exists()
    assert processes_about(tmp_path) == []
