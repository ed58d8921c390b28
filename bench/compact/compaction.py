"""Measures compaction beside decoding and encoding the same files without a merge.

    python -m bench.compact.compaction [--cells N] [--repeats N] [--profile KEY-COLUMNS-RUNS]

The cases differ in keys, columns and sorted runs. One bucket has some runs that overlap everywhere,
and some keys are in several runs. One process, one core; both works take turns. Figures are ratios
of medians, of the processor's time and of the clock's. About four minutes. Goal: ≤ 1.25.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.goal import Goal
from bench.processor_profile import print_profile
from bench.shop.shop_changes import fresh_folder
from bench.steps import encode, file_rows, in_turns
from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.binary_row import serialize_row
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.bucket_compaction import compact_bucket
from stream_app.table.kinds.table_kind_registry import bucket_writer
from stream_app.table.opening import create_or_open
from tests.support.files.flushed_files import flushed_files

GOAL = 1.25
CELLS = 6_000_000
"""The number of values in all runs together: rows × columns."""
KEYS = {"int": "BIGINT", "string": "STRING", "composite": "STRING, INT"}
COLUMNS = (10, 100)
RUNS = (2, 5, 20)
BUCKET = BucketId(serialize_row((), ()), 0)
_VALUE_TYPES = ("BIGINT", "DOUBLE", "STRING", "INT", "TIMESTAMP(6)")


@dataclass(frozen=True)
class Case:
    """The input of a merge; `columns` includes the key's columns."""

    key: str
    columns: int
    runs: int

    @property
    def name(self) -> str:
        return f"{self.key}-{self.columns}-{self.runs}"


CASES = tuple(Case(*chosen) for chosen in product(KEYS, COLUMNS, RUNS))


@dataclass(frozen=True)
class Measured:
    """The median seconds of a case: of the processor and of the clock."""

    case: Case
    rows: int
    bytes: int
    cpu_s: float
    limit_cpu_s: float
    wall_s: float
    limit_wall_s: float

    def markdown(self) -> str:
        case = self.case
        cells = (
            case.key,
            case.columns,
            case.runs,
            f"{self.rows / self.wall_s / 1e3:,.0f}",
            f"{self.bytes / self.wall_s / 1e6:,.0f}",
            f"{self.cpu_s / self.limit_cpu_s:.2f}",
            f"{self.wall_s / self.limit_wall_s:.2f}",
        )
        return f"| {' | '.join(map(str, cells))} |"


def a_table(folder: Path, case: Case) -> FileStoreTable:
    keys = [f"k{number} {kind}" for number, kind in enumerate(KEYS[case.key].split(", "))]
    values = [
        f"v{number} {_VALUE_TYPES[number % len(_VALUE_TYPES)]}"
        for number in range(case.columns - len(keys))
    ]
    schema = new_table_schema(
        columns=parse_columns(", ".join([*keys, *values])),
        primary_keys=tuple(name.split()[0] for name in keys),
        partition_keys=(),
        options={"bucket": "1"},
        time_ms=1,
    )
    return create_or_open(fresh_folder(folder, case.name), schema)


def random_rows(
    rng: np.random.Generator, table: FileStoreTable, rows: int, ids: int
) -> pa.RecordBatch:
    """Return unsorted inserts, with keys from numbers below `ids`, in the key columns' types."""
    schema = table.schema
    fields = arrow_schema(schema.fields)
    numbers = rng.integers(0, ids, rows)
    columns: list[pa.Array] = [pa.array(np.zeros(rows, np.int8))]
    for field in fields:
        is_key = field.name in schema.primary_keys
        values = numbers if is_key else rng.integers(0, 1_000_000, rows)
        if is_key and len(schema.primary_keys) > 1:
            values = numbers // 100 if field.name == "k0" else numbers % 100
        if pa.types.is_string(field.type):
            text = pa.array(values).cast(pa.string())
            column = pc.binary_join_element_wise("customer-", text, "")
        else:
            column = pa.array(values).cast(
                pa.int64() if pa.types.is_timestamp(field.type) else field.type
            )
        columns.append(column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, names=[VALUE_KIND, *fields.names])


def sorted_runs(
    table: FileStoreTable, runs: int, batches: Iterator[Iterable[pa.RecordBatch]]
) -> tuple[DataFileMeta, ...]:
    """Write each group of batches as a level-0 file, the oldest first."""
    files: list[DataFileMeta] = []
    for run in range(runs):
        writer = bucket_writer(table, *BUCKET, next_sequence_number=run * 10**9)
        for batch in next(batches):
            writer.write(batch)
        files += flushed_files(writer, *BUCKET).added_files
    return tuple(files)


def full_compaction(files: tuple[DataFileMeta, ...]) -> CompactRequest:
    return CompactRequest(
        partition=BUCKET.partition,
        bucket=BUCKET.bucket,
        unit=CompactUnit(5, files, "bench"),
        drops_deletes=True,
        max_level=5,
    )


def prepare(folder: Path, case: Case, cells: int) -> tuple[FileStoreTable, CompactRequest]:
    table = a_table(folder, case)
    rng = np.random.default_rng(17)
    rows = cells // case.columns // case.runs
    batches = ([random_rows(rng, table, rows, 4 * rows)] for _ in range(case.runs))
    return table, full_compaction(sorted_runs(table, case.runs, batches))


def measure(folder: Path, cells: int, repeats: int) -> Iterator[Measured]:
    pa.set_cpu_count(1)
    for case in CASES:
        table, request = prepare(folder, case, cells)
        yield _measure(folder, table, request, case, repeats)


def _measure(
    folder: Path, table: FileStoreTable, request: CompactRequest, case: Case, repeats: int
) -> Measured:
    files = request.unit.files
    outputs = [
        file_rows(table, BUCKET, file) for file in compact_bucket(table, request).added_files
    ]

    def decode_and_encode() -> None:
        for file in files:
            file_rows(table, BUCKET, file)
        for rows in outputs:
            encode(table, rows, folder)

    compaction_times, limit_times = in_turns(
        repeats, lambda: compact_bucket(table, request), decode_and_encode
    )
    return Measured(
        case,
        sum(file.row_count for file in files),
        sum(file.file_size for file in files),
        compaction_times.cpu_s,
        limit_times.cpu_s,
        compaction_times.wall_s,
        limit_times.wall_s,
    )


def lines(folder: Path, cells: int = CELLS, repeats: int = 3) -> Iterator[str]:
    yield "| key | columns | runs | k rows/s | MB/s | processor's time ÷ limit | clock's |"
    yield f"| --- |{' ---: |' * 6}"
    for result in measure(folder, cells, repeats):
        yield result.markdown()


def goals(folder: Path, cells: int = CELLS, repeats: int = 3) -> Iterator[Goal]:
    """Yield a goal for each case, by the processor's time."""
    for result in measure(folder, cells, repeats):
        ratio = result.cpu_s / result.limit_cpu_s
        yield Goal(f"compaction ÷ decode and encode, {result.case.name}", ratio, GOAL)


def profile(folder: Path, name: str, cells: int) -> None:
    pa.set_cpu_count(1)
    case = next(case for case in CASES if case.name == name)
    table, request = prepare(folder, case, cells)
    compact_bucket(table, request)
    print_profile(lambda: compact_bucket(table, request))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compact.compaction")
    parser.add_argument("--cells", type=int, default=CELLS, help="rows × columns of all runs")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", metavar="KEY-COLUMNS-RUNS", help="for example int-10-20")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        if args.profile:
            profile(Path(folder), args.profile, args.cells)
            return
        for line in lines(Path(folder), args.cells, args.repeats):
            print(line, flush=True)


if __name__ == "__main__":
    main()
