"""Runs jobs many times in one process, so that many small cases share one start of the JVM.

Each run is the `main` of `ingest_job` or `compact_job`, as `spark-submit` calls it, on one Spark
session with warm workers.
What a run writes, from Python and from the JVM, goes to one file; the answer is its exit code and
its part of it. Signals, kills and the command line are tested with `IngestProcess` instead.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import ROOT
from tests.support.judges.line_server import LineServer

_WORKER_THAT_WAS_ENDED = re.compile(
    r'Traceback \(most recent call last\):\n  File "[^"]*/pyspark/daemon\.py".*\n'
    r"(?: .*\n)+(?:EOFError|BrokenPipeError: .*)\n"
)
"""What a worker writes when Spark ends it while it begins, or before it has sent its end."""


@dataclass(frozen=True)
class Finished:
    """One run of the job."""

    code: int
    output: str
    seconds: float

    @property
    def error(self) -> str:
        """What the job says of its failure, without its log."""
        before, _, error = self.output.partition("error: ")
        assert "Traceback" not in _WORKER_THAT_WAS_ENDED.sub("", self.output), self.output
        assert "\tat " not in self.output, self.output
        assert error, before
        return error.rstrip()


class IngestServer:
    """The process that runs the jobs."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "ingest-server.txt"
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "STREAM_APP_SERVER_LOG": str(self._log)}
        self._server = LineServer(
            [sys.executable, "-P", "-m", "tests.support.jobs.ingest_server"],
            cwd=folder,
            env=environ,
        )

    def run(self, conf: Path, *settings: str, events: Path | None = None) -> Finished:
        """Run the job to its end; `settings` are KEY=VALUE of ``--set``."""
        words = ["--conf", str(conf)]
        for setting in settings:
            words += ["--set", setting]
        if events is not None:
            words += ["--events", str(events)]
        return self._run("ingest", words)

    def compact(self, table: Path, *words: str) -> Finished:
        """Run the compact job on a table; `words` are further arguments."""
        return self._run("compact", [str(table), *words])

    def _run(self, job: str, words: list[str]) -> Finished:
        before, began = self._log.stat().st_size, time.monotonic()
        code = self._server.call({"job": job, "argv": words})["code"]
        seconds = time.monotonic() - began
        with self._log.open("rb") as log:
            log.seek(before)
            return Finished(code, log.read().decode(errors="replace"), seconds)

    def close(self) -> None:
        self._server.close()


@pytest.fixture(scope="session")
def ingest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IngestServer]:
    """Yield one server for the session, whose JVM starts with the first run."""
    server = IngestServer(tmp_path_factory.mktemp("ingest-server"))
    yield server
    server.close()


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    log = os.open(os.environ["STREAM_APP_SERVER_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ["PYSPARK_PYTHON"] = sys.executable

    from stream_app.app.launch.spark_submit import LOG4J, SCHEDULER
    from stream_app.app.submit import compact_main, ingest_main
    from stream_app.spark.driver.session import launch_settings, start_session
    from tests.support.engines.spark_kafka_source import spark_kafka_source_jars

    jobs = {"ingest": ingest_main.main, "compact": compact_main.main}
    print('{"ready": true}', file=answers, flush=True)
    has_started = False
    for line in sys.stdin:
        if not has_started:
            # The JVM is started as `spark-submit` would; the runs find it and make sessions.
            settings = {
                "spark.master": "local[2]",
                "spark.driver.extraJavaOptions": fast_jvm(),
            }
            launch = launch_settings(
                settings,
                jars=spark_kafka_source_jars(),
                log4j=LOG4J,
                scheduler=SCHEDULER,
            )
            spark = start_session("server", settings, launch)
            setattr(type(spark), "stop", lambda _: None)  # noqa: B010 - the next run continues with it
            has_started = True
        request = json.loads(line)
        code = jobs[request["job"]](request["argv"])
        print(json.dumps({"code": code}), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
