"""The command line as a shell runs it: exit codes, pipes, signals, files."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq
import pytest

from tests.support.tables.small_table import SmallTable, small_table
from tests.support.verbs.command import COMMAND, REPO

TIMEOUT = 240


def stream_app(*words: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], cwd=REPO, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        **kwargs,
    )  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return small_table(
        tmp_path / "shop.db" / "t", "k INT, v STRING", ("k",), changelog_producer="input"
    )


def test_rows_and_errors_go_to_their_own_streams(small: SmallTable) -> None:
    small.commit(("+I", {"k": 1, "v": "a"}))
    good = stream_app("read", small.path, "--format", "jsonl")
    assert (good.returncode, good.stdout, good.stderr) == (0, '{"k":1,"v":"a"}\n', "")
    bad_read = stream_app("read", small.path, "--where", "k = 'x'")
    assert (bad_read.returncode, bad_read.stdout) == (2, "")
    assert "Traceback" not in bad_read.stderr


def test_reading_and_its_help_do_without_spark() -> None:
    program = (
        "import sys; from stream_app.app.cli.main import main; "
        "codes = [main([verb, '--help']) for verb in ('read', 'changelog', 'inspect')]; "
        "kafka = 'kafka' in sys.modules; "
        "codes += [main([verb, '--help']) for verb in ('check', 'backfill', 'quarantine')]; "
        "sys.exit(any(codes) or kafka or 'pyspark' in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=REPO, capture_output=True, timeout=TIMEOUT, check=False)
    assert result.returncode == 0, result.stderr


def test_a_pipe_that_closes_early_is_not_an_error(small: SmallTable) -> None:
    small.commit(*(("+I", {"k": k, "v": "x" * 1000}) for k in range(5000)))
    for form in ("table", "csv"):
        command = [*COMMAND, "read", small.path, "--format", form]
        with subprocess.Popen(
            command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b"", form
            assert process.wait(TIMEOUT) == 141, form


def test_a_terminal_without_unicode(small: SmallTable) -> None:
    small.commit(("+I", {"k": 1, "v": "東京"}))
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    result = stream_app("inspect", small.path, "levels", env=ascii_only)
    assert result.returncode == 0
    assert "bucket 0: 1 sorted run" in result.stdout


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_follow_shows_each_change_at_once_and_ends_with_ctrl_c(
    small: SmallTable, form: str
) -> None:
    small.commit(("+I", {"k": 1, "v": "a"}))
    command = [*COMMAND, "changelog", small.path, "--follow", "--format", form]
    process = subprocess.Popen(
        command,
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background of a shell ignores Ctrl-C, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        first = _line_with(process.stdout, "+I")
        if form == "jsonl":
            assert json.loads(first) == {"_row_kind": "+I", "_snapshot": 1, "k": 1, "v": "a"}
        small.commit(("-U", {"k": 1, "v": "a"}), ("+U", {"k": 1, "v": "b"}))
        assert _line_with(process.stdout, "-U")
        assert _line_with(process.stdout, "+U")
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


def _line_with(lines: IO[str], text: str) -> str:
    for line in lines:
        if text in line:
            return line
    raise AssertionError(f"ended before {text}")


def test_files_appear_whole(small: SmallTable, tmp_path: Path) -> None:
    small.commit(("+I", {"k": 1, "v": None}), ("+I", {"k": 2, "v": "b"}))
    target = tmp_path / "rows.parquet"
    result = stream_app("read", small.path, "--format", "parquet", "--out", str(target))
    assert (result.returncode, result.stdout) == (0, "")
    assert pq.read_table(target).to_pylist() == [{"k": 1, "v": None}, {"k": 2, "v": "b"}]

    (data,) = (Path(small.path) / "bucket-0").glob("data-*")
    data.write_bytes(b"not parquet")
    failed_read = stream_app("read", small.path, "--format", "parquet", "--out", str(target))
    assert failed_read.returncode == 2
    assert "a data file has 11 bytes" in failed_read.stderr
    assert pq.read_table(target).num_rows == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.parquet", "shop.db"]


def test_an_empty_table_is_an_empty_file(small: SmallTable, tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    assert (
        stream_app("read", small.path, "--format", "parquet", "--out", str(target)).returncode == 0
    )
    assert pq.read_table(target).column_names == ["k", "v"]
