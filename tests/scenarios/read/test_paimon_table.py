"""A reader in Python gets a table's rows, versions and splits, in any library that takes Arrow."""

from __future__ import annotations

import datetime as dt
import gc
import json
import os
import pickle
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stream_app
from stream_app import PaimonTable
from stream_app.errors import TableNotFoundError, UsageError
from stream_app.model.schema.data_type import RowType
from stream_app.table.read.interleaved_batches import interleaved
from tests.support.files.plain_object import plain_object
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Three snapshots: 0 to 9 are "a", then 5 to 14 are "b", then 0 is gone."""
    table = small_table(tmp_path / "t", "k INT, v STRING", ("k",), bucket=3, write_only=True)
    table.commit(*(("+I", {"k": k, "v": "a"}) for k in range(10)))
    table.commit(*(("+U", {"k": k, "v": "b"}) for k in range(5, 15)))
    table.commit(("-D", {"k": 0, "v": "a"}))
    return table


def keys(reader: pa.RecordBatchReader) -> list[int]:
    return sorted(reader.read_all().column("k").to_pylist())


def test_reads_rows_columns_and_conditions(small: SmallTable) -> None:
    table = stream_app.open_table(Path(small.path))
    assert repr(table) == f"PaimonTable({small.path!r})"
    assert table.schema.names == ["k", "v"]
    rows = table.read().read_all().sort_by("k").to_pylist()
    assert rows == [{"k": k, "v": "a" if k < 5 else "b"} for k in range(1, 15)]
    assert keys(table.read(where="v = 'b' AND k < 7")) == [5, 6]
    assert keys(table.read(where=(pc.field("v") == "b") & (pc.field("k") < 7))) == [5, 6]
    reader = table.read(columns=["v"], where="k = 3")
    assert reader.schema == pa.schema([("v", pa.string())])
    assert reader.read_all().to_pylist() == [{"v": "a"}]
    assert table.read(limit=4).read_all().num_rows == 4
    assert table.read(limit=0).read_all().num_rows == 0
    assert keys(table.read(threads=1)) == keys(table.read(threads=4)) == list(range(1, 15))


def test_goes_back_in_time(small: SmallTable) -> None:
    table = stream_app.open_table(small.path)
    assert keys(table.read(snapshot=1)) == list(range(10))
    assert keys(table.read(snapshot=2, where="v = 'a'")) == [0, 1, 2, 3, 4]
    times = [small.table.snapshots.snapshot(number).time_ms for number in (1, 2, 3)]
    assert keys(table.read(timestamp=times[1])) == list(range(15))
    assert keys(table.read(timestamp=times[1] - 1)) == list(range(10))
    assert keys(table.read(timestamp=times[2] + 10**9)) == list(range(1, 15))
    time = dt.datetime.fromtimestamp(times[0] / 1000, dt.UTC)
    assert keys(table.read(timestamp=time)) == list(range(10))
    assert keys(table.read(timestamp=time.isoformat())) == list(range(10))


def tagged(small: SmallTable, name: str, number: int, **more: Any) -> None:
    """A tag as Java writes it: the snapshot's file, and two keys."""
    root = Path(small.path)
    snapshot = plain_object((root / f"snapshot/snapshot-{number}").read_text())
    (root / "tag").mkdir(exist_ok=True)
    (root / "tag" / f"tag-{name}").write_text(json.dumps({**snapshot, **more}))


def test_reads_tags_also_of_expired_snapshots(small: SmallTable) -> None:
    tagged(small, "first", 1, tagCreateTime=[2026, 1, 2, 3, 4, 5, 6_000_000], tagTimeRetained=1.001)
    tagged(small, "second", 2)
    (Path(small.path) / "snapshot/snapshot-1").unlink()
    (Path(small.path) / "snapshot/EARLIEST").write_text("2")
    table = stream_app.open_table(small.path)
    assert keys(table.read(tag="first")) == list(range(10))
    tags = small.table.tags.tags()
    assert [(tag.name, tag.snapshot.snapshot_id) for tag in tags] == [("first", 1), ("second", 2)]
    created_time_ms = dt.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=dt.UTC).timestamp() * 1000
    assert (tags[0].create_time_ms, tags[0].time_retained_ms) == (created_time_ms, 1001)
    assert (tags[1].create_time_ms, tags[1].time_retained_ms) == (None, None)
    with pytest.raises(UsageError, match="unknown tag 'frist'; did you mean 'first'") as caught:
        table.read(tag="frist")
    assert caught.value.fix == "name one of first, second"


def marked(small: SmallTable, number: int, watermark: int) -> None:
    path = Path(small.path) / f"snapshot/snapshot-{number}"
    path.write_text(json.dumps({**plain_object(path.read_text()), "watermark": watermark}))


def test_reads_the_first_snapshot_of_a_watermark(small: SmallTable) -> None:
    table = stream_app.open_table(small.path)
    with pytest.raises(UsageError, match="no snapshot has reached the watermark 5; none has any"):
        table.read(watermark=5)
    marked(small, 1, 100)
    marked(small, 3, 200)
    assert keys(table.read(watermark=100)) == list(range(10))
    assert keys(table.read(watermark=101)) == list(range(1, 15))
    with pytest.raises(UsageError, match="the watermark 201: the latest has 200"):
        table.read(watermark=201)


def test_wrong_use_is_refused(small: SmallTable, tmp_path: Path) -> None:
    table = stream_app.open_table(small.path)
    for options, problem in (
        ({"snapshot": 1, "tag": "x"}, "snapshot and tag are given, but only one of them can name"),
        ({"snapshot": 9}, "snapshot 9 does not exist: the table has 1 to 3"),
        ({"timestamp": 5}, "no snapshot is as old as 1970-01-01T00:00:00.005Z: the earliest, 1"),
        ({"timestamp": "noon"}, "'noon' is not a timestamp"),
        ({"tag": "x"}, "unknown tag 'x'"),
        ({"columns": ["k", "kk"]}, "unknown column 'kk'"),
        ({"columns": ["k", "k"]}, "column 'k' is named twice"),
        ({"columns": "k"}, "columns = 'k' is one text"),
        ({"where": "k ="}, "expected"),
        ({"limit": -1}, "limit -1 is below 0"),
        ({"threads": 0}, "threads = 0 is below 1"),
    ):
        with pytest.raises(UsageError) as caught:
            table.read(**options)
        assert problem in str(caught.value), options
        assert caught.value.fix
    with pytest.raises(TableNotFoundError):
        stream_app.open_table(tmp_path / "nowhere")
    empty = small_table(tmp_path / "empty", "k INT, v STRING", ("k",))
    assert keys(stream_app.open_table(empty.path).read()) == []


def test_splits_can_be_pickled_and_read_apart(tmp_path: Path) -> None:
    """Another process can read a split with the columns of an earlier version, too."""
    small = small_table(
        tmp_path / "t", "k INT, v STRING", ("k",), bucket=2, write_only=True,
        source__split__target_size="1 b", source__split__open_file_cost="1 b",
    )  # fmt: skip
    for low in range(0, 40, 10):
        small.commit(*(("+I", {"k": k, "v": str(k)}) for k in range(low, low + 10)))
    table = stream_app.open_table(small.path)
    splits = pickle.loads(pickle.dumps(table.splits()))
    assert len(splits) == 8
    assert all(split.is_raw and split.row_count and split.file_size for split in splits)
    keys_read = [k for split in splits for k in keys(table.read_split(split))]
    assert sorted(keys_read) == list(range(40))
    chosen = table.splits(where="k >= 30")
    assert len(chosen) == 2
    assert sum(len(keys(table.read_split(split, where="k >= 35"))) for split in chosen) == 5
    assert len(table.splits(snapshot=1)) == 2


def test_an_earlier_version_has_the_columns_of_its_time(small: SmallTable) -> None:
    table = stream_app.open_table(small.path)
    splits = table.splits(snapshot=1)
    schema = small.table.schema
    renamed_schema = replace(
        schema, schema_id=1,
        fields=RowType((schema.fields.fields[0], replace(schema.fields.fields[1], name="w"))),
    )  # fmt: skip
    assert small.table.schemas.create(renamed_schema)
    later = SmallTable(replace(small.table, schema=renamed_schema))
    later.commit(("+I", {"k": 99, "w": "new"}))
    table = stream_app.open_table(small.path)
    assert table.read().schema.names == ["k", "w"]
    assert table.read(where="k >= 14 AND w > ''").read_all().sort_by("k").to_pylist() == [
        {"k": 14, "w": "b"}, {"k": 99, "w": "new"},
    ]  # fmt: skip
    assert table.read(snapshot=1, where="v = 'a'").schema.names == ["k", "v"]
    keys_read = [k for split in splits for k in keys(table.read_split(split, where="v = 'a'"))]
    assert sorted(keys_read) == list(range(10))


def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    """Two threads read two buckets of three runs, each larger than a batch of 4 MiB."""
    small, large = (
        stream_app.open_table(wide_table(tmp_path / str(size), size).path)
        for size in (20_000, 40_000)
    )
    # The distance between the threads depends on the machine: the lowest of several peaks counts.
    lowest_peak = min(_peak_of_reading(small, 60_000_000) for _ in range(4))
    # A read holds a page, its dictionary and a batch for each run and column. Memory that grew with
    # the table would be twice as much at each try.
    assert any(_peak_of_reading(large, 120_000_000) < 1.6 * lowest_peak for _ in range(48))


def _peak_of_reading(table: PaimonTable, read_min: int) -> int:
    """Read the table of at least `read_min` bytes, and return Arrow's peak of bytes meanwhile."""
    gc.collect()  # otherwise objects of earlier tests would be freed during the read
    before, read, peak = pa.total_allocated_bytes(), 0, 0
    for batch in table.read(threads=2):
        read += batch.nbytes
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert read > read_min
    return peak


def wide_table(path: Path, size: int) -> SmallTable:
    """Three runs that overlap everywhere, each of `size` rows of a kilobyte."""
    small = small_table(path, "k INT, v BYTES", ("k",), bucket=2, write_only=True)
    noise = random.Random(0)
    for run in range(3):
        small.commit(*(("+I", {"k": k * 3 + run, "v": noise.randbytes(1000)}) for k in range(size)))
    return small


def test_is_taken_by_duckdb_polars_and_pandas_in_a_line(small: SmallTable) -> None:
    """The lines are those of the documentation."""
    table = stream_app.open_table(small.path)
    rows = table.read()  # noqa: F841 - DuckDB finds it by its name
    counts = duckdb.sql("SELECT v, count(*) FROM rows GROUP BY v ORDER BY v")
    assert counts is not None
    assert counts.fetchall() == [
        ("a", 4), ("b", 10),
    ]  # fmt: skip
    frame = polars.from_arrow(table.read(columns=["k"], where="v = 'a'"))
    assert isinstance(frame, polars.DataFrame)
    assert sorted(frame["k"]) == [1, 2, 3, 4]
    assert polars.DataFrame(table).height == 14
    pandas_frame: pandas.DataFrame = table.read(where="v = 'a'").read_pandas()
    assert sorted(pandas_frame["k"]) == [1, 2, 3, 4]
    assert pa.table(table).num_rows == 14


def test_a_reader_that_stops_early_leaves_no_thread(small: SmallTable) -> None:
    reader = stream_app.open_table(small.path).read(threads=3)
    assert next(iter(reader)).num_rows
    del reader
    assert [thread for thread in threading.enumerate() if thread.name.startswith("read")] == []


def numbers(start: int, count: int, log: list[int] | None = None) -> Iterator[pa.RecordBatch]:
    for number in range(start, start + count):
        if log is not None:
            log.append(number)
        yield pa.record_batch({"n": [number]})


@pytest.mark.parametrize("threads", [1, 2, 5, 50])
def test_all_batches_of_all_streams_come_once(threads: int) -> None:
    streams = [lambda start=start: numbers(start, start % 4) for start in range(0, 100, 10)]
    values = [batch.column(0)[0].as_py() for batch in interleaved(streams, threads)]
    assert sorted(values) == [
        start + number for start in range(0, 100, 10) for number in range(start % 4)
    ]


def test_threads_run_no_further_ahead_than_a_batch_each() -> None:
    log: list[int] = []
    batches = interleaved([lambda: numbers(0, 1000, log), lambda: numbers(5000, 1000, log)], 2)
    for _ in range(10):
        next(batches)
    time.sleep(0.1)
    assert len(log) <= 10 + 2 + 1
    batches.close()  # type: ignore[attr-defined]


def test_an_error_of_one_stream_ends_all() -> None:
    def fails() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [1]})
        raise UsageError("broken")

    with pytest.raises(UsageError, match="broken"):
        list(interleaved([lambda: numbers(0, 10**6), fails], 2))


def test_importing_the_package_imports_neither_spark_nor_arrow(small: SmallTable) -> None:
    code = (
        "import sys, stream_app; assert 'pyarrow' not in sys.modules; "
        f"stream_app.open_table({small.path!r}).read().read_all(); "
        "assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
    assert PaimonTable is type(stream_app.open_table(small.path))
    with pytest.raises(AttributeError, match="no attribute 'opentable'"):
        stream_app.opentable  # noqa: B018 - asking is the test
