"""A process that begins with lean imports has no pandas, and collects its garbage as before."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from stream_app.process.lean_imports import lean_imports

with lean_imports():
    assert not gc.isenabled()
    import stream_app.app.cli.verbs.status
import pyarrow as pa

assert pa.table({"a": [1, None]}).num_rows == 2
assert "pandas" not in sys.modules, "Arrow has asked for it"
assert gc.isenabled() and gc.get_freeze_count() > 10_000
import pandas

print(pandas.DataFrame({"a": [1]}).shape, pa.array([2]).to_pylist())
"""


@pytest.mark.slow
def test_pandas_stays_out_of_a_command() -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr) == ("(1, 1) [2]\n", "")


def test_a_command_imports_no_pandas() -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stream_app", "ingest", "--help"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "pyarrow.lib" in names
    assert "pandas.core" not in names
