"""A new user's first commands work with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.jobs.ingest_process import job_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.tables.small_table import small_table

READ = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
print("rows:", spark.read.format("stream_app").load(sys.argv[1]).count())
"""


def bare_environment(tmp_path: Path) -> dict[str, str]:
    """An environment that knows of the virtual environment only by the Python that is called."""
    bare = {key: os.environ[key] for key in ("PATH", "HOME", "JAVA_HOME") if key in os.environ}
    venv = str(Path(sys.executable).parent)
    bare["PATH"] = ":".join(part for part in bare["PATH"].split(":") if part != venv)
    return {**bare, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(tmp_path)}


@pytest.mark.spark
@pytest.mark.slow
def test_spark_finds_the_source_from_any_folder(tmp_path: Path) -> None:
    """The environment's Python is enough: the test activates nothing and sets no variable."""
    table = small_table(tmp_path / "db.db" / "t", "k INT, v STRING", ("k",))
    table.commit(*(("+I", {"k": k, "v": "a"}) for k in range(7)))
    (tmp_path / "read.py").write_text(READ)
    result = subprocess.run(
        [sys.executable, str(tmp_path / "read.py"), table.path],
        cwd=tmp_path, env=bare_environment(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "rows: 7" in result.stdout, result.stderr[-3000:]


@pytest.mark.spark
@pytest.mark.slow
def test_a_checksum_whose_file_is_gone_is_not_another_process(
    tmp_path: Path, ingest_server: IngestServer
) -> None:
    stale = ("offsets/.1.crc", "commits/.1.crc", "sources/0/.1.crc")
    source = tmp_path / "in"
    source.mkdir()
    conf = job_conf(
        tmp_path,
        source={"kind": "files", "path": str(source)},
        table={"columns": "id BIGINT NOT NULL", "options.changelog-producer": "none"},
    )
    for number in range(2):
        value = json.dumps({"op": "c", "after": {"id": number}})
        message = {"topic": "t", "partition": 0, "offset": number, "key": None, "value": value}
        (source / f"{number}.jsonl").write_text(json.dumps(message) + "\n")
        result = ingest_server.run(conf)
        assert result.code == 0, result.output
        for checksum_name in stale:
            (tmp_path / "checkpoint" / checksum_name).write_bytes(b"crc\0\0\0\2\0")
    assert all(
        f"{checksum_name}, a checksum whose file is gone" in result.output
        for checksum_name in stale
    )
