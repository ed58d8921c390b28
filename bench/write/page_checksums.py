"""Measures what checksums of Parquet pages cost when a job writes, reads and compacts.

    python -m bench.write.page_checksums [--rows N] [--rounds N]

Each step runs with checksums and without: writers then compute none, and readers verify none. One
process, one core; both take turns, and each begins every second round. The ratio is that of the
shortest processor times, because other work on the machine changes a time by more than checksums
do. About two minutes. Goal: ≤ 1.03.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.compact.compaction import (
    BUCKET,
    Case,
    a_table,
    full_compaction,
    random_rows,
    sorted_runs,
)
from bench.steps import file_rows
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_writer
from tests.support.files.flushed_files import flushed_files

ROWS = 400_000
ROUNDS = 15
CASES = tuple(Case(key, 10, 4) for key in ("int", "string", "composite"))
Work = Callable[[], object]
_WRITER, _READER = pq.ParquetWriter, pq.ParquetFile


@contextmanager
def without_checksums() -> Iterator[None]:
    """Write and read files without checksums of pages, within the block."""

    def writer(*args: Any, **settings: Any) -> pq.ParquetWriter:
        return _WRITER(*args, **{**settings, "write_page_checksum": False})

    def reader(*args: Any, **settings: Any) -> pq.ParquetFile:
        return _READER(*args, **{**settings, "page_checksum_verification": False})

    with patch.multiple(pq, ParquetWriter=writer, ParquetFile=reader):
        yield


def steps(folder: Path, case: Case, rows: int) -> dict[str, Work]:
    """Return name → measured step. The files that are read have checksums."""
    table = a_table(folder, case)
    rng = np.random.default_rng(17)
    batches = [random_rows(rng, table, rows // case.runs, rows) for _ in range(case.runs)]
    request = full_compaction(sorted_runs(table, case.runs, iter([batch] for batch in batches)))

    def write() -> None:
        writer = bucket_writer(table, *BUCKET, next_sequence_number=0)
        for batch in batches:
            writer.write(batch)
        flushed_files(writer, *BUCKET)

    return {
        "write": write,
        "read": lambda: [file_rows(table, BUCKET, file) for file in request.unit.files],
        "compaction": lambda: compact_bucket(table, request),
    }


def ratio(work: Work, rounds: int) -> tuple[float, float]:
    """Return the shortest processor time, and its ratio to the time without checksums."""

    def work_without() -> None:
        with without_checksums():
            work()

    shortest_s = {work: float("inf"), work_without: float("inf")}
    for turn in range(rounds):
        for job in (work, work_without) if turn % 2 else (work_without, work):
            start_s = time.process_time()
            job()
            shortest_s[job] = min(shortest_s[job], time.process_time() - start_s)
    return shortest_s[work], shortest_s[work] / shortest_s[work_without]


def lines(folder: Path, rows: int = ROWS, rounds: int = ROUNDS) -> Iterator[str]:
    pa.set_cpu_count(1)
    yield "| key | step | k rows/s | processor's time ÷ without |"
    yield "| --- | --- | ---: | ---: |"
    for case in CASES:
        for name, work in steps(folder, case, rows).items():
            seconds, slowdown = ratio(work, rounds)
            yield f"| {case.key} | {name} | {rows / seconds / 1e3:,.0f} | {slowdown:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.write.page_checksums")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.rows, args.rounds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
