"""Sorted compactions of tables without a key keep the rows, in an order by which readers prune."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import stream_app
from stream_app.app.cli.arguments.parsed_texts import partition_argument
from stream_app.app.cli.main import main
from stream_app.app.job.sorted_compaction import sort_partitions
from stream_app.app.table_setup.compaction_settings import CompactionSettings
from stream_app.model.files.row_order import OrderStrategy, RowOrder
from stream_app.model.schema.data_type import RowType, parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.model.snapshot import CommitKind
from stream_app.table.compact.append.row_sorter import RowSorter
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open, open_file_store_table
from stream_app.table.read.split_scan import SplitScan
from stream_app.table.versions.partition_filter import PartitionFilter
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = parse_columns("p STRING, a INT, b BIGINT, c STRING")


def a_table(path: Path, rng: random.Random, **options: str) -> list[Change]:
    schema = new_table_schema(
        columns=COLUMNS,
        primary_keys=(),
        partition_keys=("p",),
        options={"bucket": "-1", "write-only": "true", "target-file-size": "4 kb", **options},
        time_ms=TIME_MS,
    )
    table = create_or_open(str(path), schema, SteppingClock())
    rows: list[Change] = [
        (
            "+I",
            {
                "p": rng.choice("xy"),
                "a": rng.choice([None, *range(200)]),
                "b": rng.randrange(200),
                "c": f"{rng.randrange(10**9):09}",
            },
        )
        for _ in range(6000)
    ]
    writer = TableWriter(table)
    for start in range(0, len(rows), 1000):
        writer.write(rows[start : start + 1000])
    return rows


def sorted_by(table: FileStoreTable, order: RowOrder, *partitions: str) -> list[str]:
    partition_filter = PartitionFilter(partitions=tuple(map(partition_argument, partitions)))
    job = CompactionSettings(
        table=table,
        partition_filter=partition_filter,
        is_full=True,
        follows=False,
        spark_settings={},
        row_order=order,
    )
    return list(sort_partitions(job, CompactInCaller(table)))


def files_with(table: FileStoreTable, condition: str) -> int:
    scan = SplitScan(table, row_filter(condition, table.schema))
    return sum(len(split.files) for split in scan.splits(table.snapshots.latest()))


@pytest.mark.parametrize("memory", ["1 mb", "8 kb"])
@pytest.mark.parametrize("strategy", OrderStrategy)
def test_rows_stay_and_conditions_open_fewer_files(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, strategy: OrderStrategy, memory: str
) -> None:
    path = tmp_path / "db.db" / "t"
    rows = a_table(path, random.Random(seed), **{"write-buffer-size": memory})
    table, expected = open_file_store_table(str(path)), by_content(row for _, row in rows)
    conditions = ["a = 7"] if strategy is OrderStrategy.ORDER else ["a = 7", "b = 150"]
    assert all(
        files_with(table, condition) == files_with(table, "c > ''") for condition in conditions
    )
    lines = sorted_by(table, RowOrder(strategy, ("a", "b")))
    assert len(lines) == 3, lines
    table = open_file_store_table(str(path))
    whole = files_with(table, "c > ''")
    for condition in conditions:
        assert files_with(table, condition) <= whole * 0.75, (condition, whole)
    assert by_content(normal_rows(stream_app.open_table(str(path)).read().read_all())) == expected
    assert by_content(paimon_java.read(path)) == expected
    latest = table.snapshots.latest()
    assert latest is not None
    assert latest.commit_kind is CommitKind.COMPACT
    sound_report(table)


def test_a_partition_alone_is_sorted_and_later_rows_stay(
    paimon_java: PaimonJava, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "db.db" / "t"
    rows = a_table(path, random.Random(seed))
    table = open_file_store_table(str(path))
    paimon_java.write(path, [("+I", {"p": "x", "a": 1, "b": 2, "c": "later"})], identifier=99)
    [line, _] = sorted_by(table, RowOrder(OrderStrategy.ORDER, ("c",)), "p=x")
    assert line.startswith("p=x: ")
    got = stream_app.open_table(str(path)).read(where="p = 'x'").read_all()
    assert got.num_rows == 1 + sum(row["p"] == "x" for _, row in rows)
    assert len(paimon_java.read(path)) == len(rows) + 1


def test_a_dry_run_lists_what_would_be_sorted(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "db.db" / "t"
    a_table(path, random.Random(seed))
    command = ["compact", str(path), "--dry-run", "--order-strategy", "zorder", "--order-by"]
    assert main([*command, "a,b"]) == 0
    assert "zorder by a, b" in capsys.readouterr().out
    for columns in ("nope", "p", "a,a"):
        assert main([*command, columns]) == 2
        assert "--order-by" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", OrderStrategy)
def test_ranges_on_disk_give_the_order_of_one_sort(strategy: OrderStrategy, seed: int) -> None:
    rng = random.Random(seed)
    columns = RowType(COLUMNS.fields[1:])
    batches = [
        pa.record_batch(
            {
                "a": pa.array([rng.choice([None, 1, 2, 3]) for _ in range(100)], pa.int32()),
                "b": pa.array([rng.randrange(50) for _ in range(100)], pa.int64()),
                "c": pa.array([rng.choice(["", "abcdefgh1", "abcdefgh2"]) for _ in range(100)]),
            }
        )
        for _ in range(20)
    ]

    def read() -> Iterator[pa.RecordBatch]:
        yield from batches

    order = RowOrder(strategy, ("c", "b", "a"))
    whole = list(RowSorter(order, columns, 1 << 30).rows(read, read, 1))
    parts = list(RowSorter(order, columns, 1000).rows(read, read, 5000))
    assert len(parts) > 1
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches(whole))
