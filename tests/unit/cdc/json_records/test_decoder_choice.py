"""The job chooses its decoder with the extra `compiled` and without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from stream_app.cdc.json_records.decoder_choice import compile_ahead, decoder_in_use
from stream_app.errors import UsageError
sys.modules.update({missing})
compile_ahead()
for wanted in ("auto", "arrays", "compiled"):
    try:
        print(decoder_in_use(wanted))
    except UsageError as error:
        print(error)
"""


def log_lines(missing: str = "", **environment: str) -> list[str]:
    """Return what a new process logs for each value of the option."""
    program = PROGRAM.replace("{missing}", f"{{{missing}}}")
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return ran.stdout.splitlines()


def test_without_the_extra_arrays_decode_and_the_reason_is_logged() -> None:
    auto, arrays, *error = log_lines("'numba': None")
    assert auto == "arrays (the package numba is missing)"
    assert arrays == "arrays"
    assert "decoder = compiled: the package numba is missing" in error[0]
    assert "pip install 'stream_app[compiled]'" in "\n".join(error)


@pytest.mark.slow
def test_with_the_extra_machine_code_decodes() -> None:
    numba = pytest.importorskip("numba")
    code = f"machine code (Numba {numba.__version__})"
    assert log_lines() == [code, "arrays", code]


def test_where_no_code_can_be_kept_arrays_decode(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    (tmp_path / "file").touch()
    auto, *_ = log_lines(NUMBA_CACHE_DIR=str(tmp_path / "file"))
    assert auto.startswith("arrays (Numba has no folder for its code: set NUMBA_CACHE_DIR")


@pytest.mark.slow
def test_code_is_compiled_once(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    log_lines(NUMBA_CACHE_DIR=str(tmp_path))
    times_ns = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ci]")}
    assert times_ns
    log_lines(NUMBA_CACHE_DIR=str(tmp_path))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb[ci]")} == times_ns
