"""A condition lets the reader skip files, and does not change the rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from stream_app.errors import UsageError
from stream_app.filestore.versions.schema_manager import SchemaManager
from stream_app.format.file_index.container import decode_file_index, encode_file_index
from stream_app.model.schema.data_type import DataField, RowType, parse_columns
from stream_app.table.check.table_check import TableCheck
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.read.split_scan import SplitScan
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.tables.merge_read import MergeRead
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")
Where: TypeAlias = str | Any | None  # pc.Expression, of a library without types


def rows(table: FileStoreTable, where: Where = None) -> tuple[list[dict[str, Any]], CountingFileIO]:
    """Rows by key, and what was opened for them."""
    files = CountingFileIO()
    table = replace(table, file_io=files)
    read = MergeRead(table, None, None if where is None else row_filter(where, table.schema))
    rows = pa.Table.from_batches(read.read(table.snapshots.latest()), read.schema).to_pylist()
    return sorted(rows, key=_by_value), files


def _by_value(row: dict[str, Any]) -> list[tuple[bool, Any]]:
    return [(value is None, value) for value in row.values()]


def opened(table: FileStoreTable, where: Where) -> tuple[list[Any], int]:
    """The first columns of the rows that pass, and how many data files were opened."""
    matching, files = rows(table, where)
    return [next(iter(row.values())) for row in matching], len(files.opened("data-"))


def ints(*numbers: int, v: str | None = "x") -> list[tuple[str, dict[str, Any]]]:
    return [("+I", {"k": number, "v": v}) for number in numbers]


def three_ranges(path: Path, **options: Any) -> SmallTable:
    small = small_table(path, "k INT, v STRING", ("k",), write_only=True, **options)
    small.commit(*ints(*range(10), v="a"))
    small.commit(*ints(*range(10, 20), v="b"))
    small.commit(*ints(*range(20, 30), v=None))
    return small


@pytest.mark.parametrize(
    ("where", "keys", "files"),
    [
        ("k = 15", [15], 1),
        (pc.field("k") == 15, [15], 1),
        ("k > 18 AND k < 21", [19, 20], 2),
        ("k IN (3, 25)", [3, 25], 2),
        ("k < 0", [], 0),
        ("NOT k < 100", [], 0),
        ("v = 'b' AND k < 12", [10, 11], 1),
        ("v = 'c'", [], 0),
        ("v IS NULL AND k = 20", [20], 1),
        ("v IS NOT NULL AND k > 25", [], 0),
        (pc.field("k").isin([3, 25]), [3, 25], 2),
        (pc.field("v").is_null() & (pc.field("k") <= 20), [20], 1),
        ("v LIKE 'a%' OR k = 10", list(range(11)), 2),
    ],
)
def test_files_that_overlap_nothing_are_left_unopened_by_key_and_value(
    tmp_path: Path, where: Where, keys: list[int], files: int
) -> None:
    assert opened(three_ranges(tmp_path / "t").table, where) == (keys, files)


def test_values_leave_out_a_section_only_whole(tmp_path: Path) -> None:
    """A newer version that does not pass hides an older one that does."""
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), write_only=True)
    small.commit(*ints(1, 2, 3, v="old"))
    small.commit(*ints(2, v="new"))
    small.commit(*ints(7, 8, v="old"))
    assert opened(small.table, "v = 'old'") == ([1, 3, 7, 8], 3)
    assert opened(small.table, "v = 'new'") == ([2], 2)
    assert opened(small.table, "v = 'other'") == ([], 0)
    # By key the newer file alone can be left out: it has no version of the key.
    assert opened(small.table, "k = 1 AND v = 'old'") == ([1], 1)
    assert opened(small.table, "k = 2 AND v = 'old'") == ([], 2)


@pytest.mark.parametrize(("engine", "files"), [("deduplicate", 0), ("aggregation", 2)])
def test_values_leave_out_no_section_whose_engine_makes_new_ones(
    tmp_path: Path, engine: str, files: int
) -> None:
    """A sum of values can pass where none of them does; a file without overlap is not a sum."""
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), write_only=True)
    small.commit(*ints(1, 2, 3, v="old"))
    small.commit(*ints(2, v="new"))
    small.commit(*ints(7, 8, v="old"))
    options = {**small.table.schema.options, "merge-engine": engine}
    table = replace(small.table, schema=replace(small.table.schema, options=options))
    scan = SplitScan(table, row_filter("v = 'other'", table.schema))
    splits = scan.splits(table.snapshots.latest())
    assert sum(len(split.files) for split in splits) == files


def test_a_delete_is_found_though_its_row_does_not_pass(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), write_only=True)
    small.commit(*ints(1, 2, v="a"))
    small.commit(("-D", {"k": 2, "v": None}))
    assert opened(small.table, "v = 'a'") == ([1], 2)


def test_partitions_and_manifests_are_left_unopened(tmp_path: Path) -> None:
    small = small_table(
        tmp_path / "t", "dt STRING, k INT, v STRING", ("dt", "k"), ("dt",), write_only=True
    )
    for day in range(6):
        small.commit(*(("+I", {"dt": f"d{day}", "k": k, "v": "x"}) for k in range(3)))
    for where in ("dt = 'd3'", pc.field("dt") == "d3", "dt > 'd2' AND dt < 'd4'"):
        matching, files = rows(small.table, where)
        assert [(row["dt"], row["k"]) for row in matching] == [("d3", 0), ("d3", 1), ("d3", 2)]
        assert len(files.opened("data-")) == 1
        assert len(files.opened("manifest-")) == 1
    _, files = rows(small.table)
    assert len(files.opened("manifest-")) == 6


def test_a_null_partition_passes_what_nulls_pass(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "dt STRING, n INT", partition_keys=("dt",))
    small.commit(("+I", {"dt": None, "n": 1}), ("+I", {"dt": "a", "n": 2}))
    small.commit(("+I", {"dt": "b", "n": 3}))
    assert opened(small.table, "dt IS NULL") == ([None], 1)
    assert opened(small.table, "dt IS NOT NULL") == (["a", "b"], 2)
    assert opened(small.table, "dt = 'b'") == (["b"], 1)


def test_a_point_lookup_reads_one_bucket(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), bucket=8, write_only=True)
    small.commit(*ints(*range(100)))
    assert opened(small.table, "k = 42") == ([42], 1)
    # Arrow's expression does not tell that it is a point: all buckets have such keys.
    assert opened(small.table, pc.field("k") == 42)[0] == [42]


def test_files_of_append_tables_are_left_unopened_by_value(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING, f DOUBLE")
    small.commit(("+I", {"k": 1, "v": "a", "f": 1.0}), ("+I", {"k": 2, "v": "b", "f": None}))
    small.commit(
        ("+I", {"k": 9, "v": None, "f": float("nan")}), ("+I", {"k": 8, "v": None, "f": 0.5})
    )
    assert opened(small.table, "k > 5") == ([8, 9], 1)
    assert opened(small.table, "v = 'a'") == ([1], 1)
    assert opened(small.table, "v IS NULL") == ([8, 9], 1)
    assert opened(small.table, "f > 100") == (
        [9],
        2,
    )  # NaN is greater than all; no bounds are asked


@pytest.fixture
def small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of a hundred rows."""
    write = pq.ParquetWriter.write_table

    def in_pieces(self: Any, table: pa.Table, *_: Any, **__: Any) -> None:
        write(self, table, row_group_size=100)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", in_pieces)


def bytes_read(table: FileStoreTable, where: Where) -> tuple[list[int], int]:
    matching, files = rows(table, where)
    return [row["k"] for row in matching], sum(files.read[name] for name in files.opened("data-"))


@pytest.mark.usefixtures("small_row_groups")
@pytest.mark.parametrize("keys", [("k",), ()])
def test_row_groups_are_left_unread(tmp_path: Path, keys: Sequence[str]) -> None:
    """The reader prunes by key where it merges versions, and else by every column."""
    noise = random.Random(0)
    small = small_table(tmp_path / "t", "k INT, v STRING, n INT", keys, write_only=True)
    small.commit(*(
        ("+I", {"k": k, "v": noise.randbytes(400).hex(), "n": k // 100}) for k in range(5000)
    ))  # fmt: skip
    (file,) = (tmp_path / "t").rglob("data-*.parquet")
    assert pq.ParquetFile(file).num_row_groups == 50
    _, whole = bytes_read(small.table, None)
    for where in ("k = 1234", pc.field("k") == 1234):
        values, part = bytes_read(small.table, where)
        assert values == [1234]
        assert part < whole / 10
    values, part = bytes_read(small.table, "n = 12")
    assert values == list(range(1200, 1300))
    assert part < whole / 10
    if keys:
        small.commit(("+U", {"k": 0, "v": "new", "n": 12}), ("-D", {"k": 4999, "n": 0}))
        values, part = bytes_read(small.table, "k = 1234")
        assert values == [1234]
        assert part < whole / 10
        values, part = bytes_read(small.table, "n = 12")
        assert values == [0, *range(1200, 1300)]
        assert part > whole / 2


def evolved(small: SmallTable, columns: RowType) -> FileStoreTable:
    """The table with other columns, as a change of its schema makes it."""
    schema = small.table.schema
    later = replace(
        schema, schema_id=schema.schema_id + 1, fields=columns,
        highest_field_id=max(column.field_id for column in columns),
    )  # fmt: skip
    assert SchemaManager(small.table.file_io, small.table.location).create(later)
    return replace(small.table, schema=later)


@pytest.mark.usefixtures("small_row_groups")
@pytest.mark.parametrize("keys", [("k",), ()])
def test_statistics_of_older_files_are_read_under_their_older_names(
    tmp_path: Path, keys: Sequence[str]
) -> None:
    """An ALTER swaps the names of columns, widens some, and adds others."""
    small = small_table(
        tmp_path / "t", "k INT, a INT, b INT, d DECIMAL(5,1)", keys, write_only=True
    )
    small.commit(*(("+I", {"k": k, "a": k, "b": -k, "d": k}) for k in range(1, 301)))
    old = {field.name: field for field in small.table.schema.fields}
    types = {field.name: field.data_type for field in parse_columns("w BIGINT, d DECIMAL(12,3)")}
    columns = RowType((
        old["k"],
        replace(old["b"], name="a"),
        replace(old["a"], name="b", data_type=types["w"]),
        replace(old["d"], data_type=types["d"]),
        DataField(field_id=9, name="new", data_type=types["w"]),
    ))  # fmt: skip
    table = evolved(small, columns)
    later = SmallTable(table)
    later.commit(("+I", {"k": 400, "a": -400, "b": 400, "d": 400, "new": 1}))
    assert opened(table, "b = 150") == ([150], 1)
    assert opened(table, "a = 150") == ([], 0)
    assert opened(table, "b > 5000000000") == ([], 0)
    assert opened(table, "d = 150.000") == ([150], 1)
    assert opened(table, "d > 350.001") == ([400], 1)
    assert opened(table, "new = 1") == ([400], 1)
    assert opened(table, "new IS NULL AND b < 3") == ([1, 2], 1)


def test_random_conditions_give_what_a_whole_read_gives(tmp_path: Path, seed: int) -> None:
    """The table has levels, deletes, sequence numbers and partitions, and no answer changes."""
    noise = random.Random(seed)
    small = small_table(
        tmp_path / "t", "p STRING, k INT, v INT, s STRING", ("p", "k"), ("p",), bucket=2,
        num_sorted_run__compaction_trigger=4, target_file_size="2 kb",
    )  # fmt: skip
    for epoch in range(12):
        low = noise.randrange(100)
        small.commit(*(
            (
                noise.choice(["+I", "+U", "+I", "-D"]),
                {"p": noise.choice("xy"), "k": noise.randrange(low, low + 30),
                 "v": noise.choice([None, epoch, noise.randrange(20)]), "s": noise.choice("abc")},
            )
            for _ in range(25)
        ))  # fmt: skip
        if epoch % 4 == 3:
            small.compact()
    every, _ = rows(small.table)
    whole = pa.Table.from_pylist(every, rows_schema(small.table))
    for _ in range(60):
        where = " OR ".join(_conjunction(noise) for _ in range(noise.randrange(1, 3)))
        expression = row_filter(where, small.table.schema).expression
        expected = whole.filter(expression).to_pylist()
        for form in (where, expression):
            matching, _ = rows(small.table, form)
            assert matching == sorted(expected, key=_by_value), where


def rows_schema(table: FileStoreTable) -> pa.Schema:
    return MergeRead(table).schema


def _conjunction(noise: random.Random) -> str:
    return " AND ".join(_test(noise) for _ in range(noise.randrange(1, 4)))


def _test(noise: random.Random) -> str:
    sign = noise.choice(["=", "<>", "<", "<=", ">", ">="])
    test = noise.choice([
        f"p {sign} '{noise.choice('xyz')}'",
        f"k {sign} {noise.randrange(-5, 140)}",
        f"k IN ({noise.randrange(130)}, {noise.randrange(130)})",
        f"v {sign} {noise.randrange(-1, 21)}",
        "v IS NULL",
        f"s {sign} '{noise.choice('abcd')}'",
    ])  # fmt: skip
    return f"NOT ({test})" if noise.random() < 0.2 else test


def test_a_read_warns_once_of_indexes_of_an_unknown_kind(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A later Paimon may write them. The reader still uses the file's known index."""
    options = {"file-index.bloom-filter.columns": "v", "file-index.in-manifest-threshold": "1 b"}
    small = small_table(tmp_path, "k INT, v STRING", ("k",), write_only=True, **options)
    for key in (1, 3):
        small.commit(*ints(key, v="a"), *ints(key + 1, v="c"))
    for path in tmp_path.rglob("*.index"):
        bodies = decode_file_index(path.read_bytes())
        path.write_bytes(encode_file_index({**bodies, "k": {"later": b"?"}}))
    assert opened(small.table, "v = 'b'") == ([], 2), "the indexes alone"
    [warning] = caplog.messages
    assert warning.startswith(f"{small.table.location} has indexes of column 'k' of the ")
    assert "unknown kind 'later'" in warning
    assert "bloom-filter or" in warning
    check = TableCheck(small.table, is_quick=False, progress=lambda *_: None)
    assert list(check.findings()) == []
    assert (
        "2 file indexes of column 'k', of the kind 'later', which"
        in check.report.unchecked_parts[0]
    )
    damaged_file = next(tmp_path.rglob("*.index"))
    damaged_file.write_bytes(damaged_file.read_bytes()[:20])
    [finding] = TableCheck(small.table, is_quick=False, progress=lambda *_: None).findings()
    assert finding.where == str(damaged_file)


def test_a_condition_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    table = three_ranges(tmp_path / "t").table
    with pytest.raises(UsageError, match="does not fit the table's columns") as caught:
        row_filter(pc.field("nope") > 1, table.schema)
    assert "k int32, v string" in caught.value.fix
    assert row_filter(pc.field("v") == "a", table.schema).columns == ("v",)
