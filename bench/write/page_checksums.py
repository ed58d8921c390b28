"""What the checksums of Parquet pages cost when a job writes, reads and compacts.

    python -m bench.write.page_checksums [--rows N] [--rounds N]

Each step as it is and without: writers then make no checksums, readers look at none. In one
process, one core, in turns that begin with the one and the other; the ratio is that of the least
times of the processor, because the difference is smaller than what others do to a time. About two
minutes. Goal: ≤ 1.03.
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
from stream_app.table.write.bucket_writer import flushed_files

ROWS = 400_000
ROUNDS = 15
CASES = tuple(Case(key, 10, 4) for key in ("int", "string", "composite"))
Work = Callable[[], object]
_WRITER, _READER = pq.ParquetWriter, pq.ParquetFile


@contextmanager
def without_checksums() -> Iterator[None]:
    """Files are written and read as if pages had none."""

    def writer(*args: Any, **settings: Any) -> pq.ParquetWriter:
        return _WRITER(*args, **{**settings, "write_page_checksum": False})

    def reader(*args: Any, **settings: Any) -> pq.ParquetFile:
        return _READER(*args, **{**settings, "page_checksum_verification": False})

    with patch.multiple(pq, ParquetWriter=writer, ParquetFile=reader):
        yield


def steps(folder: Path, case: Case, rows: int) -> dict[str, Work]:
    """Return the measured steps. Files that are read have checksums."""
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
    """Least seconds of the processor, and the same ÷ that without checksums."""

    def plain() -> None:
        with without_checksums():
            work()

    least = {work: float("inf"), plain: float("inf")}
    for turn in range(rounds):
        for job in (work, plain) if turn % 2 else (plain, work):
            began = time.process_time()
            job()
            least[job] = min(least[job], time.process_time() - began)
    return least[work], least[work] / least[plain]


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
