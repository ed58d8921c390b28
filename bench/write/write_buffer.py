"""Measures memory and time of the write buffer and of a flush.

    python -m bench.write.write_buffer [--rows N] [--limit-mb N] [--case NAME] [--profile]

The bench prints for each case the peak of Arrow's memory ÷ the limit (goal: ≤ 1.25), which includes
the arriving batches but not the files. It also prints the peak of NumPy's memory (row orders), and
the rows a second through the buffer alone and through a whole flush into Parquet.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from stream_app.format.arrow_schema import arrow_schema
from stream_app.format.data_files.parquet_writer import parquet_writer
from stream_app.mergetree.key_value_batch import KeyValueLayout
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.write.merge_tree_writer import MergeTreeWriter
from stream_app.mergetree.write.write_buffer import SortBufferWriteBuffer
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

GOAL = 1.25
BATCH_ROWS = 20_000


@dataclass(frozen=True)
class Case:
    name: str
    key: str = "BIGINT"
    keys: int = 10**9
    value_size: int = 60
    changelog: bool = False
    may_spill: bool = True
    limit_share: float = 1.0
    """The share of the given limit; a share below 1 makes the rows spill."""


CASES = (
    Case("bigint"),
    Case("string", key="STRING"),
    Case("two columns", key="BIGINT, STRING"),
    Case("few keys", keys=20_000),
    Case("wide rows", value_size=2_000),
    Case("narrow rows", value_size=0),
    Case("changelog", changelog=True),
    Case("no spill", may_spill=False, limit_share=0.1),
    Case("spill", limit_share=0.1),
    Case("spill strings", key="STRING", limit_share=0.1),
    Case("spill changelog", changelog=True, limit_share=0.1),
    Case("spill 12 times", limit_share=0.04),
)


def layout_of(case: Case) -> KeyValueLayout:
    types = case.key.split(", ")
    keys = [f"k{number}" for number in range(len(types))]
    columns = [f"{name} {kind} NOT NULL" for name, kind in zip(keys, types, strict=True)]
    columns += ["v STRING", "amount DECIMAL(12,2)", "at TIMESTAMP(6)"]
    return KeyValueLayout(
        schema=pa.schema(
            [
                pa.field(SEQUENCE_NUMBER, pa.int64(), nullable=False),
                pa.field(VALUE_KIND, pa.int8(), nullable=False),
                *arrow_schema(parse_columns(", ".join(columns))),
            ]
        ),
        key_names=tuple(keys),
    )


def arriving_batches(case: Case, layout: KeyValueLayout, rows: int) -> Iterator[pa.RecordBatch]:
    """Yield batches as they come from the shuffle, always the same for a case."""
    rng = np.random.default_rng(7)
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        columns = [pa.array(rng.choice([0, 2, 2, 3], count).astype(np.int8))]
        for name in layout.key_names:
            numbers = rng.integers(0, case.keys, count)
            is_text = layout.schema.field(name).type == pa.string()
            columns.append(
                pa.array([f"customer-{number:09}" for number in numbers])
                if is_text
                else pa.array(numbers)
            )
        texts = rng.integers(97, 122, count * case.value_size, dtype=np.uint8)
        offsets = np.arange(count + 1, dtype=np.int32) * case.value_size
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
        columns.append(pa.Array.from_buffers(pa.string(), count, buffers))
        words = np.zeros((count, 2), dtype=np.int64)
        words[:, 0] = rng.integers(0, 10**9, count)
        cents = pa.py_buffer(words)
        columns.append(pa.Array.from_buffers(pa.decimal128(12, 2), count, [None, cents]))
        updated_at = rng.integers(0, 10**15, count)
        columns.append(pa.array(updated_at, pa.timestamp("us")))
        batch = pa.RecordBatch.from_arrays(columns, names=layout.schema.names[1:])
        # A copy, so that the batch is in Arrow's memory instead of NumPy's.
        yield pa.concat_batches([batch])


@dataclass
class Sink:
    """A writer that discards its files: after encoding them as Parquet, or at once."""

    schema: pa.Schema
    as_parquet: bool
    bytes_written: int = 0
    _batches: list[pa.RecordBatch] = field(default_factory=list)

    def data_writer(self, *, level: int, file_source: FileSource) -> Sink:  # noqa: ARG002
        return replace(self, _batches=[])

    def changelog_writer(self, *, level: int = 0) -> Sink:  # noqa: ARG002
        return replace(self, _batches=[])

    def write(self, batch: pa.RecordBatch) -> None:
        if self.as_parquet:
            self._batches.append(batch)

    def close(self) -> tuple[DataFileMeta, ...]:
        if self.as_parquet:
            writer = parquet_writer(io.BytesIO(), self.schema, CoreOptions({}))
            writer.write_table(pa.Table.from_batches(self._batches, self.schema))
            writer.close()
        return ()

    def abort(self) -> None:
        self._batches = []


def writer_of(
    case: Case, layout: KeyValueLayout, bytes_max: int, *, as_parquet: bool
) -> MergeTreeWriter:
    engine = Deduplicate()
    return MergeTreeWriter(
        layout=layout,
        buffer=SortBufferWriteBuffer(
            layout=layout,
            bytes_max=bytes_max,
            chunk_merge=None if case.changelog else engine,
            may_spill=case.may_spill,
        ),
        merge_function=engine,
        file_access=Sink(layout.schema, as_parquet),  # type: ignore[arg-type]
        next_sequence_number=0,
        writes_changelog=case.changelog,
    )


def run(writer: MergeTreeWriter, batches: Iterator[pa.RecordBatch]) -> None:
    for batch in batches:
        writer.write(batch)
    writer.prepare_commit()


def measure_peak(case: Case, layout: KeyValueLayout, rows: int, bytes_max: int) -> tuple[int, int]:
    """Return the peak memory of Arrow and of NumPy, in bytes."""
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    default_pool = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        run(
            writer_of(case, layout, bytes_max, as_parquet=False),
            arriving_batches(case, layout, rows),
        )
        return pool.max_memory(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(default_pool)


def seconds(work: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def measure(case: Case, rows: int, given_bytes_max: int, *, profile: bool = False) -> float:
    """Print the line of a case, and return the peak of Arrow's memory ÷ the limit."""
    layout = layout_of(case)
    bytes_max = int(given_bytes_max * case.limit_share)
    arrow_peak, numpy_peak = measure_peak(case, layout, rows, bytes_max)
    batches = list(arriving_batches(case, layout, rows))
    size = sum(batch.nbytes for batch in batches)
    buffer_s, flush_s = (
        min(
            seconds(
                partial(
                    lambda encodes: run(
                        writer_of(case, layout, bytes_max, as_parquet=encodes), iter(batches)
                    ),
                    as_parquet,
                )
            )
            for _ in range(3)
        )
        for as_parquet in (False, True)
    )
    print(
        f"{case.name:16} {size / 1e6:6.0f} MB  limit {bytes_max / 1e6:5.0f} MB  "
        f"Arrow ÷ limit {arrow_peak / bytes_max:.2f}  NumPy ÷ limit {numpy_peak / bytes_max:.2f}  "
        f"k rows/s: buffer {rows / buffer_s / 1e3:5.0f}, with Parquet {rows / flush_s / 1e3:5.0f}"
    )
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(run, writer_of(case, layout, bytes_max, as_parquet=False), iter(batches))
        pstats.Stats(profiler).sort_stats("tottime").print_stats(18)
    return arrow_peak / bytes_max


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--limit-mb", type=int, default=256)
    parser.add_argument("--case", choices=[case.name for case in CASES])
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    measure_peak(CASES[0], layout_of(CASES[0]), 10, 1000)  # late imports do not count
    for case in CASES:
        if options.case in (None, case.name):
            rows = options.rows // 10 if case.value_size > 1000 else options.rows
            measure(case, rows, options.limit_mb << 20, profile=options.profile)
    print(f"goal: Arrow ÷ limit ≤ {GOAL}")


if __name__ == "__main__":
    main()
