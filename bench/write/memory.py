"""Measures the memory of a writing task beside its budget, for inputs of several sizes.

    python -m bench.write.memory

A task in another process writes 1, 2 and 8 times its `write-buffer-size` into one bucket. The
figure is the process's peak resident memory above its memory before the first row. Goal: at most
the budget + 25 %.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.shop.shop_changes import fresh_folder, random_orders, shop_schema
from stream_app.format.binary_row import serialize_row
from stream_app.model.bucket_id import BucketId
from stream_app.table.kinds.table_kind_registry import table_write
from stream_app.table.opening import create_or_open

BUDGET = 256 << 20
TIMES = (1, 2, 8)
BLOCK_ROWS = 20_000
IDS = 50_000_000


def lines(folder: Path) -> Iterator[str]:
    """Yield one line for each size of input."""
    yield f"writer with `write-buffer-size` {BUDGET >> 20} MB:"
    for times in TIMES:
        job = {"folder": str(folder), "times": times}
        process = subprocess.run(
            [sys.executable, "-m", "bench.write.memory", json.dumps(job)],
            env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "jemalloc"},  # as in the job
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        peak = json.loads(process.stdout)["peak"]
        yield (
            f"  input {times * BUDGET >> 20} MB: peak {peak / 2**20:.0f} MB above idle, "
            f"{peak / BUDGET:.2f} × budget (goal ≤ 1.25)"
        )


def run_worker(folder: Path, times: int) -> int:
    """Return the bytes of the peak above the memory at the start."""
    table = create_or_open(
        fresh_folder(folder, f"memory{times}"),
        shop_schema(**{"write-buffer-size": f"{BUDGET >> 20} mb"}),
    )
    partition = serialize_row(("2026-01-01",), table.schema.partition_type.types)
    rng = np.random.default_rng(3)
    # Write a small file first, so that libraries, pools and code are loaded before the count.
    _write(table, partition, iter([random_orders(rng, 1000, table.schema, ids=IDS)]))
    start_bytes = peak()
    written_size = 0

    def blocks() -> Iterator[pa.RecordBatch]:
        nonlocal written_size
        while written_size < times * BUDGET:
            block = random_orders(rng, BLOCK_ROWS, table.schema, ids=IDS)
            written_size += block.nbytes
            yield block

    _write(table, partition, blocks())
    return peak() - start_bytes


def _write(table: object, partition: bytes, blocks: Iterator[pa.RecordBatch]) -> None:
    with table_write(table, next_sequence_number=0) as task:  # type: ignore[arg-type]
        for block in blocks:
            task.write(BucketId(partition, 0), block)
        task.prepare_commit()


def peak() -> int:
    # The peak of getrusage includes that of the process that has started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    if len(sys.argv) > 1:
        job = json.loads(sys.argv[1])
        print(json.dumps({"peak": run_worker(Path(job["folder"]), job["times"])}))
        return
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder)):
            print(line)


if __name__ == "__main__":
    main()
