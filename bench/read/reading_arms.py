"""Runs one of the readers of `bench.read.reading`, in one thread of this process.

    python bench/read/reading_arms.py ours|pyarrow|pypaimon|rust TABLE REPEATS CASE…

A case is ``NAME;columns=a,b;low=1;high=2;equal=3;incremental=3,4``. The program prints a line for
each run: name, rows, seconds of the clock and of the processor, peak memory and read bytes.
PyPaimon and Paimon Rust run in another Python environment, so only `ours` imports the project.
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
    """Read every data file without a merge, so that a key may occur several times."""
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
    predicates = [sign("k", int(case[key])) for key, sign in signs.items() if key in case]
    if predicates:
        builder = builder.with_filter(conditions.and_predicates(predicates))
    if (columns := columns_of(case)) is not None:
        builder = builder.with_projection(columns)
    splits = builder.new_scan().plan().splits()
    if "buckets" in case:  # a whole table would take too long
        splits = [split for split in splits if split.bucket < int(case["buckets"])]
    yield from builder.new_read().to_arrow_batch_reader(splits)


def rust(path: str, case: Case) -> Iterator[pa.RecordBatch]:
    """Read by the Python package of Paimon Rust, which may use several threads."""
    from pypaimon_rust.datafusion import PaimonCatalog

    table_folder = Path(path)
    catalog = PaimonCatalog({"warehouse": str(table_folder.parents[1])})
    builder = catalog.get_table(
        f"{table_folder.parent.stem}.{table_folder.name}"
    ).new_read_builder()
    methods = {"low": "greaterOrEqual", "high": "lessOrEqual", "equal": "equal"}
    predicates = [
        {"method": method, "field": "k", "literals": [int(case[key])]}
        for key, method in methods.items()
        if key in case
    ]
    if predicates:
        builder = builder.with_filter({"method": "and", "children": predicates})
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
            start_size = _read_size()
            start_s = time.perf_counter()
            processor_start_s = time.process_time()
            rows = sum(batch.num_rows for batch in read(path, case))
            seconds = time.perf_counter() - start_s, time.process_time() - processor_start_s
            sizes = _peak(), _read_size() - start_size
            print(name, rows, *(f"{value:.6f}" for value in seconds), *sizes, flush=True)


def _peak() -> int:
    """Return the peak memory of this process in bytes; getrusage may return its parent's."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(match[1]) * 1024 if match else 0


def _read_size() -> int:
    """Return the bytes that this process has read from files, including the system's cache."""
    match = re.search(r"rchar: (\d+)", Path("/proc/self/io").read_text())
    return int(match[1]) if match else 0


if __name__ == "__main__":
    main()
