"""A job that waits for another job ends at a stop request."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.engines.fast_jvm import fast_jvm

pytestmark = [pytest.mark.spark, pytest.mark.slow]
REPO = Path(__file__).resolve().parents[3]
CONF = """
[source]
kind = "files"
path = "{folder}/in"
max-files-per-trigger = 1
[table]
warehouse = "{folder}/wh"
database = "d"
name = "t"
columns = "id BIGINT NOT NULL, v STRING"
primary-keys = ["id"]
[table.options]
bucket = "1"
"write-only" = true
"num-sorted-run.compaction-trigger" = 1
"write-only.stop-trigger" = 1
[stream]
checkpoint = "{folder}/cp"
trigger = "1 second"
[spark]
"spark.master" = "local[2]"
"spark.ui.enabled" = "false"
"spark.driver.extraJavaOptions" = "{java_options}"
"""


@pytest.mark.variant
def test_sigterm_ends_a_job_that_waits(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for k in range(4):
        change = {"before": None, "after": {"id": k, "v": "a"}, "source": {}, "op": "c", "ts_ms": 1}
        message = {"topic": "t", "partition": 0, "offset": k, "key": None}
        line = json.dumps({**message, "value": json.dumps(change)})
        (tmp_path / "in" / f"f{k}.jsonl").write_text(line + "\n")
    conf = tmp_path / "c.toml"
    conf.write_text(CONF.format(folder=tmp_path, java_options=fast_jvm()))
    log = tmp_path / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stream_app", "ingest", "--conf", str(conf)],
            cwd=REPO, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 240
        while "this job is write-only and waits:" not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
