"""What set-up says of pip's lines, where Spark's log goes, and how Java reads names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stream_app.app.launch.java import unicode_environment
from stream_app.app.launch.set_up import CommandRunner, PipProgress, pinned
from stream_app.app.launch.spark_log import log_file

PIP = """\
Collecting numpy==2.4.6 (from -r requirements.lock (line 9))
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl.metadata (6.6 kB)
  Downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)
Collecting py4j==0.10.9.9 (from -r requirements.lock (line 14))
  Using cached py4j-0.10.9.9-py2.py3-none-any.whl (203 kB)
Requirement already satisfied: six==1.17.0 in ./lib
Collecting pyspark==4.1.3 (from -r requirements.lock (line 19))
  Downloading pyspark-4.1.3.tar.gz (455.5 MB)
  Getting requirements to build wheel: started
Building wheels for collected packages: pyspark
  Building wheel for pyspark (pyproject.toml): started
Installing collected packages: py4j, numpy, pyspark
Successfully installed numpy-2.4.6 py4j-0.10.9.9 pyspark-4.1.3
"""


def test_each_package_is_told_with_its_size() -> None:
    progress = PipProgress(4)
    said = [line for each in PIP.splitlines() if (line := progress.take(each)) is not None]
    assert said == [
        "1 of 4 packages: downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl.metadata "
        "(6.6 kB)",
        "1 of 4 packages: downloading numpy-2.4.6-cp311-cp311-manylinux_2_27_x86_64.whl (16.9 MB)",
        "2 of 4 packages: using cached py4j-0.10.9.9-py2.py3-none-any.whl (203 kB)",
        "4 of 4 packages: downloading pyspark-4.1.3.tar.gz (455.5 MB)",
        "4 of 4 packages: packing pyspark",
        "4 of 4 packages: unpacking 3 packages",
    ]


def test_a_step_that_fails_shows_its_last_words(tmp_path: Path) -> None:
    said: list[str] = []
    steps = CommandRunner(tmp_path / "log", said.append)
    program = "print('first'); print('no such package'); raise SystemExit(3)"
    with pytest.raises(SystemExit, match="no such package"):
        steps.run([sys.executable, "-c", program], lambda line: line[:1] or None, "trying")
    assert said == ["f", "n"]
    assert (tmp_path / "log").read_text() == "first\nno such package\n"


def test_pins_are_counted(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("# pinned\na==1\nb==2\n")
    assert pinned([tmp_path / "lock", tmp_path / "lock"]) == 4


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"STREAM_APP_SPARK_LOG": "/x/y.log"}, "/x/y.log"),
        ({"STREAM_APP_SPARK_LOG": "-"}, None),
        # CRC-32 of the text "a checkpoint", by gzip.
        ({"XDG_STATE_HOME": "/s"}, "/s/stream_app/ingest-shop.a-b-a234f617.log"),
    ],
)
def test_sparks_log_has_a_place(environ: dict[str, str], path: str | None) -> None:
    found = log_file(environ, "ingest-shop.a/b", "a checkpoint")
    assert found == (None if path is None else Path(path))


def test_two_jobs_of_one_name_have_logs_of_their_own() -> None:
    environ = {"XDG_STATE_HOME": "/s"}
    logs = {
        log_file(environ, "ingest-shop", folder) for folder in ("/a/checkpoint", "/b/checkpoint")
    }
    assert len(logs) == 2


@pytest.mark.parametrize(
    ("environ", "changed"),
    [
        ({}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "de_DE.utf8"}, False),
        ({"LC_ALL": "", "LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "POSIX"}, True),
    ],
)
def test_java_reads_names_as_unicode(environ: dict[str, str], changed: bool) -> None:
    found = unicode_environment(environ)
    assert found == ({**environ, "LC_ALL": "C.UTF-8"} if changed else environ)
