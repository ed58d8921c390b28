"""A process that commits to a table and is killed, for tests of what the next start heals."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import json, sys
from stream_app.table.opening import open_file_store_table
from tests.support.tables.small_table import SmallTable
path, options, epoch = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
table = open_file_store_table(path).with_options(options)
SmallTable(table, epoch=epoch).commit(("+I", {"id": epoch}))
"""


@contextmanager
def committing(
    path: str, options: Mapping[str, str], epoch: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that commits a row whose `id` is the epoch, and kill it at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, path, json.dumps(options), str(epoch)]
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill_after(file: Path, path: str, options: Mapping[str, str], epoch: int) -> None:
    """Kill a commit when a file exists; the commit's next step must be delayed."""
    with committing(path, options, epoch) as process:
        while not file.exists():
            assert process.poll() is None
            time.sleep(0.02)
