"""The write buffer bounds its memory by spills. `test_merge_tree_writer` tests its output."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stream_app.mergetree.key_value_batch import rows_at
from stream_app.mergetree.merge_engines.deduplicate import Deduplicate
from stream_app.mergetree.spilled_runs import RUNS_MAX
from stream_app.mergetree.write.write_buffer import SortBufferWriteBuffer
from tests.support.tables.lsm_files import a_layout

LAYOUT = a_layout("k BIGINT NOT NULL, v STRING", "k")
MIB = 1 << 20


@contextmanager
def counted() -> Iterator[pa.ProxyMemoryPool]:
    """Counts what Arrow takes meanwhile."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    pa.set_memory_pool(pool)
    yield pool
    pa.set_memory_pool(before)


@pytest.fixture
def arrow_pool() -> Iterator[pa.ProxyMemoryPool]:
    with counted() as pool:
        yield pool


def batch_of(keys: np.ndarray, first: int, value_size: int) -> pa.RecordBatch:
    count = len(keys)
    values = [str(key).ljust(value_size) for key in keys]
    columns = [
        pa.array(np.arange(first, first + count)),
        pa.array(np.zeros(count, dtype=np.int8)),
        pa.array(keys),
        pa.array(values),
    ]
    # Copied, so that it is Arrow's memory and not NumPy's.
    return pa.concat_batches([pa.RecordBatch.from_arrays(columns, schema=LAYOUT.schema)])


def arriving(
    total: int, *, batch_size: int, value_size: int, key_count: int
) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(7)
    rows = batch_size // (value_size + 21)
    first = taken = 0
    while taken < total:
        batch = batch_of(rng.integers(0, key_count, rows), first, value_size)
        first += rows
        taken += batch.nbytes
        yield batch


def buffer_of(bytes_max: int, *, changelog: bool = False, **options: Any) -> SortBufferWriteBuffer:
    early = None if changelog else Deduplicate()
    return SortBufferWriteBuffer(layout=LAYOUT, bytes_max=bytes_max, chunk_merge=early, **options)


def fill_and_drain(buffer: SortBufferWriteBuffer, batches: Iterator[pa.RecordBatch]) -> int:
    """Rows that came out, drained whenever the buffer is full."""
    rows = 0

    def drain() -> int:
        # As a flush does: a merged copy of each window.
        return sum(rows_at(window.batch, window.order).num_rows for window in buffer.drain())

    for batch in batches:
        for piece in buffer.cut(batch):
            buffer.put(piece)
            if buffer.is_full:
                rows += drain()
    return rows + drain()


@pytest.mark.parametrize("changelog", [False, True], ids=["merged early", "changelog"])
@pytest.mark.parametrize("may_spill", [False, True], ids=["no spill", "spill"])
@pytest.mark.parametrize(
    ("limits_in", "value_size", "key_count"),
    [
        pytest.param(0.7, 100, 10**9, id="all in memory"),
        pytest.param(4, 100, 10**9, id="four times the limit"),
        pytest.param(4, 10_000, 10**9, id="wide rows"),
        pytest.param(4, 1, 10**9, id="narrow rows"),
        pytest.param(4, 100, 2_000, id="few keys"),
        pytest.param(10, 400, 10**9, id="more runs than are merged at once"),
    ],
)
@pytest.mark.slow
def test_memory_stays_within_the_limit_and_a_quarter(
    arrow_pool: pa.ProxyMemoryPool,
    limits_in: float,
    value_size: int,
    key_count: int,
    may_spill: bool,
    changelog: bool,
) -> None:
    bytes_max = 8 * MIB
    buffer = buffer_of(bytes_max, changelog=changelog, may_spill=may_spill)
    batches = arriving(
        int(limits_in * bytes_max),
        batch_size=bytes_max // 50,
        value_size=value_size,
        key_count=key_count,
    )
    assert fill_and_drain(buffer, batches) > 0
    assert arrow_pool.max_memory() <= 1.25 * bytes_max, f"{arrow_pool.max_memory() / bytes_max:.2f}"
    assert buffer.is_empty
    assert arrow_pool.bytes_allocated() <= bytes_max // 50, "nothing is kept"


@pytest.mark.slow
def test_one_huge_batch_takes_no_more_than_small_ones() -> None:
    bytes_max = 4 * MIB
    (huge,) = arriving(1, batch_size=16 * MIB, value_size=100, key_count=10**9)
    with counted() as pool:
        fill_and_drain(buffer_of(bytes_max), iter([huge]))
    assert pool.max_memory() <= 1.25 * bytes_max, f"{pool.max_memory() / bytes_max:.2f}"


def test_what_waits_of_a_huge_batch_does_not_keep_it(arrow_pool: pa.ProxyMemoryPool) -> None:
    bytes_max = 4 * MIB
    buffer = buffer_of(bytes_max)
    for batch in arriving(1, batch_size=16 * MIB, value_size=100, key_count=10**9):
        for piece in buffer.cut(batch):
            buffer.put(piece)
    del batch, piece
    assert arrow_pool.bytes_allocated() <= bytes_max
    buffer.close()


def test_cut_pieces_are_the_batch() -> None:
    buffer = buffer_of(8_000)
    batch = batch_of(np.arange(1_000), 0, 20)
    pieces = list(buffer.cut(batch))
    assert pa.concat_batches(pieces).equals(batch)
    assert all(piece.nbytes <= 1_000 for piece in pieces)


def test_a_batch_that_fits_is_not_copied() -> None:
    batch = batch_of(np.arange(10), 0, 20)
    (piece,) = buffer_of(MIB).cut(batch)
    assert piece is batch
    buffer = buffer_of(MIB)
    buffer.put(batch)
    (window,) = buffer.drain()
    assert window.batch is batch


def test_few_keys_never_spill(tmp_path: Path) -> None:
    buffer = buffer_of(MIB, spill_parent=str(tmp_path))
    for batch in arriving(20 * MIB, batch_size=MIB // 50, value_size=100, key_count=100):
        buffer.put(batch)
    assert list(tmp_path.iterdir()) == []
    windows = list(buffer.drain())
    assert sum(window.batch.num_rows for window in windows) <= 100 + MIB // 8 // 100


@pytest.mark.slow
def test_many_spilled_runs_become_few(tmp_path: Path) -> None:
    buffer = buffer_of(MIB, spill_parent=str(tmp_path))
    most = 0
    for batch in arriving(12 * MIB, batch_size=MIB // 50, value_size=400, key_count=10**9):
        buffer.put(batch)
        most = max(most, len(list(tmp_path.glob("*/*"))))
    assert most == RUNS_MAX - 1
    keys = [
        key
        for window in buffer.drain()
        for key in rows_at(window.batch, window.order).column("k").to_pylist()
    ]
    assert keys == sorted(keys)
    assert list(tmp_path.iterdir()) == []


def test_a_drain_that_is_left_early_deletes_its_files(tmp_path: Path) -> None:
    buffer = buffer_of(MIB, spill_parent=str(tmp_path))
    for batch in arriving(2 * MIB, batch_size=MIB // 50, value_size=400, key_count=10**9):
        buffer.put(batch)
    assert list(tmp_path.iterdir())
    draining = buffer.drain()
    assert isinstance(draining, Generator)
    next(draining)
    draining.close()
    assert list(tmp_path.iterdir()) == []
    assert buffer.is_empty
