"""The readers of `bench.read.reading`, each as a process of its own, in one thread.

    python bench/read/reading_arms.py ours|pyarrow|pypaimon|rust TABLE REPEATS CASE…

A case is ``NAME;columns=a,b;low=1;high=2;equal=3;incremental=3,4``. Prints a line a run: name,
rows, seconds of the clock and of the processor, most memory and what was read (bytes). PyPaimon and
Paimon Rust have an environment of their own, so nothing here needs the project, except `ours`.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

Case = Mapping[str, str]


def parse(text: str) -> tuple[str, Case]:
    name, *parts = text.split(";")
    return name, dict(part.split("=", 1) for part in parts)


def columns_of(case: Case) -> list[str] | None:
    return case["columns"].split(",") if "columns" in case else None


def ours(path: str, case: Case) -> Iterator[pa.RecordBatch]:
    import stream_app

    table = stream_app.open_table(path)
    if "incremental" in case:
        first, last = map(int, case["incremental"].split(","))
        yield from table.read_incremental((first, last), threads=1)
        return
    signs = {"low": ">=", "high": "<=", "equal": "="}
    where = " AND ".join(f"k {sign} {case[key]}" for key, sign in signs.items() if key in case)
    yield from table.read(columns=columns_of(case), where=where or None, threads=1)


def pyarrow(path: str, case: Case) -> Iterator[pa.RecordBatch]:
    """Read every data file without a merge, so that keys occur several times."""
    import pyarrow.parquet as pq

    for file in sorted(Path(path).glob("bucket-*/data-*")):
        with pq.ParquetFile(file) as source:
            names = columns_of(case) or source.schema_arrow.names[3:]
            yield from source.iter_batches(columns=names, use_threads=False)


def pypaimon(path: str, case: Case) -> Iterator[pa.RecordBatch]:
    from pypaimon import CatalogFactory

    table_folder = Path(path)
    catalog = CatalogFactory.create({"warehouse": str(table_folder.parents[1])})
    table = catalog.get_table(f"{table_folder.parent.stem}.{table_folder.name}")
    if "between-times" in case:
        table = table.copy({"incremental-between-timestamp": case["between-times"]})
    builder = table.new_read_builder()
    conditions = builder.new_predicate_builder()
    signs: dict[str, Callable[..., Any]] = {
        "low": conditions.greater_or_equal,
        "high": conditions.less_or_equal,
        "equal": conditions.equal,
    }
    wanted = [sign("k", int(case[key])) for key, sign in signs.items() if key in case]
    if wanted:
        builder = builder.with_filter(conditions.and_predicates(wanted))
    if (columns := columns_of(case)) is not None:
        builder = builder.with_projection(columns)
    splits = builder.new_scan().plan().splits()
    if "buckets" in case:  # a whole table would take too long
        splits = [split for split in splits if split.bucket < int(case["buckets"])]
    yield from builder.new_read().to_arrow_batch_reader(splits)


def rust(path: str, case: Case) -> Iterator[pa.RecordBatch]:
    """Paimon Rust by its Python package; it may use more threads than one."""
    from pypaimon_rust.datafusion import PaimonCatalog

    table_folder = Path(path)
    catalog = PaimonCatalog({"warehouse": str(table_folder.parents[1])})
    builder = catalog.get_table(
        f"{table_folder.parent.stem}.{table_folder.name}"
    ).new_read_builder()
    methods = {"low": "greaterOrEqual", "high": "lessOrEqual", "equal": "equal"}
    wanted = [
        {"method": method, "field": "k", "literals": [int(case[key])]}
        for key, method in methods.items()
        if key in case
    ]
    if wanted:
        builder = builder.with_filter({"method": "and", "children": wanted})
    if (columns := columns_of(case)) is not None:
        builder = builder.with_projection(columns)
    scan = builder.new_scan()
    if "incremental" in case:
        scan = builder.new_incremental_scan(*map(int, case["incremental"].split(",")))
    yield from builder.new_read().read_arrow(scan.plan().splits())


def main() -> None:
    arm, path, repeats, *cases = sys.argv[1:]
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    read = {"ours": ours, "pyarrow": pyarrow, "pypaimon": pypaimon, "rust": rust}[arm]
    for name, case in map(parse, cases):
        for _ in range(int(repeats)):
            before, wall, cpu = _read_bytes(), time.perf_counter(), time.process_time()
            rows = sum(batch.num_rows for batch in read(path, case))
            seconds = time.perf_counter() - wall, time.process_time() - cpu
            sizes = _peak(), _read_bytes() - before
            print(name, rows, *(f"{value:.6f}" for value in seconds), *sizes, flush=True)


def _peak() -> int:
    """Most memory of this process, bytes. What getrusage says may be its parent's."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(peak[1]) * 1024 if peak else 0


def _read_bytes() -> int:
    """Return the bytes that this process has read from files, including the system's cache."""
    read = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    return int(read[1]) if read else 0


if __name__ == "__main__":
    main()
