"""Measures the memory of a compaction of large runs beside the write buffer's budget.

    python -m bench.compact.compaction_memory [--runs N] [--run-mb N]

One process writes the runs, and another one compacts them, as a task would. The figure is the
other's peak resident memory above its memory after a small compaction. Goal: at most the budget
+ 25 %.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.compact.compaction import full_compaction, sorted_runs
from bench.write.memory import BUDGET, peak
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.opening import create_or_open

VALUE_SIZE = 100
"""The bytes of a row's value, which is random, so that files do not compress."""
BLOCK_ROWS = 50_000
SMALL_RUN = 1 << 20


def a_table(folder: Path, name: str) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns("k BIGINT, v BYTES"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", "write-buffer-size": f"{BUDGET >> 20} mb"},
        time_ms=1,
    )
    return create_or_open(f"{folder}/bench.db/{name}", schema)


def blocks(rng: np.random.Generator, size: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of random keys until their values have this size."""
    for _ in range(max(1, size // (BLOCK_ROWS * VALUE_SIZE))):
        values = pa.py_buffer(rng.bytes(BLOCK_ROWS * VALUE_SIZE))
        offsets = pa.array(np.arange(BLOCK_ROWS + 1, dtype=np.int32) * VALUE_SIZE)
        columns = [
            pa.array(np.zeros(BLOCK_ROWS, np.int8)),
            pa.array(rng.integers(0, 10**9, BLOCK_ROWS)),
            pa.Array.from_buffers(
                pa.binary(), BLOCK_ROWS, [None, offsets.buffers()[1], values], null_count=0
            ),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=[VALUE_KIND, "k", "v"])


def lines(folder: Path, runs: int, run_size: int) -> Iterator[str]:
    figures: dict[str, Any] = {}
    for mode in ("write", "compact"):
        job = {"mode": mode, "folder": str(folder), "runs": runs, "run_size": run_size}
        process = subprocess.run(
            [sys.executable, "-m", "bench.compact.compaction_memory", "--worker", json.dumps(job)],
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "jemalloc"},  # as in the job
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        figures |= json.loads(process.stdout)
    yield (
        f"compaction of {runs} runs, {figures['bytes'] / 2**20:,.0f} MB in all: peak "
        f"{figures['peak'] / 2**20:.0f} MB above idle, {figures['peak'] / BUDGET:.2f} × the "
        f"budget of {BUDGET >> 20} MB (goal ≤ 1.25), {figures['s']:.0f} s"
    )


def run_worker(job: dict[str, Any]) -> dict[str, Any]:
    folder = Path(job["folder"])
    rng = np.random.default_rng(23)
    if job["mode"] == "write":
        for name, size in (("small", SMALL_RUN), ("large", job["run_size"])):
            table = a_table(folder, name)
            batches = (blocks(rng, size) for _ in range(job["runs"]))
            # As on a cluster, the task gets the pickled request.
            request = full_compaction(sorted_runs(table, job["runs"], batches))
            (folder / f"{name}.pickle").write_bytes(pickle.dumps(request))
        return {}
    requests = {
        name: pickle.loads((folder / f"{name}.pickle").read_bytes()) for name in ("small", "large")
    }
    compact_bucket(a_table(folder, "small"), requests["small"])
    start_bytes, start_s = peak(), time.perf_counter()
    compact_bucket(a_table(folder, "large"), requests["large"])
    return {
        "peak": peak() - start_bytes,
        "s": time.perf_counter() - start_s,
        "bytes": requests["large"].unit.total_size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compact.compaction_memory")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--run-mb", type=int, default=100)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(run_worker(json.loads(args.worker))))
        return
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.runs, args.run_mb << 20):
            print(line, flush=True)


if __name__ == "__main__":
    main()
