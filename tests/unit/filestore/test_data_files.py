"""A data file's metadata is exact, because readers skip, merge and open files by it."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.errors import CorruptFileError, UnsupportedTableError
from stream_app.filestore.data.bucket_files import BucketFiles
from stream_app.format.binary_row import deserialize_row
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.schema.data_type import DataField, RowType, parse_columns, parse_data_type
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.schema.type_widening import keeps_values
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, InjectedError
from tests.support.judges.normal_rows import normal_rows
from tests.support.tables.small_table import TIME_MS, SteppingClock

pytestmark = pytest.mark.usefixtures("unsynced")
PARTITION = bytes(4) + bytes(8)
COLUMNS = "k INT, s STRING, d DOUBLE, t TIMESTAMP(3)"


def a_table(folder: Path, columns: str = COLUMNS, **options: str) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns(columns),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", **{key.replace("_", "-"): text for key, text in options.items()}},
        time_ms=TIME_MS,
    )
    return create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock())


def files_of(table: FileStoreTable, batch_rows_max: int = 100) -> BucketFiles:
    return table.bucket_files(PARTITION, 0, batch_rows_max=batch_rows_max)


def rows(table: FileStoreTable, values: Sequence[dict[str, Any]], first: int = 0) -> pa.RecordBatch:
    full = [
        {"_SEQUENCE_NUMBER": first + index, "_VALUE_KIND": 0, **row}
        for index, row in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(full, table.layout().schema)


def write(table: FileStoreTable, *batches: pa.RecordBatch) -> tuple[DataFileMeta, ...]:
    writer = files_of(table).data_writer(level=0, file_source=FileSource.APPEND)
    for batch in batches:
        writer.write(batch)
    return writer.close()


def read(table: FileStoreTable, file: DataFileMeta) -> list[dict[str, Any]]:
    batches = list(files_of(table).read(file))
    return normal_rows(pa.Table.from_batches(batches, table.layout().schema))


def test_metadata_is_exact(tmp_path: Path) -> None:
    table = a_table(tmp_path)
    values: list[dict[str, Any]] = [
        {"k": 1, "s": "b", "d": 1.5, "t": None, "_VALUE_KIND": 3, "_SEQUENCE_NUMBER": 17},
        {"k": 2, "s": None, "d": None, "t": None, "_VALUE_KIND": 1, "_SEQUENCE_NUMBER": 4},
        {"k": 9, "s": "a" * 20, "d": -3.0, "t": None, "_VALUE_KIND": 2, "_SEQUENCE_NUMBER": 8},
    ]
    [file] = write(table, rows(table, values[:1]), rows(table, values[1:]))
    path = Path(table.location, "bucket-0", file.file_name)
    assert file.file_size == path.stat().st_size
    assert (file.row_count, file.delete_row_count) == (3, 2)
    assert (file.min_sequence_number, file.max_sequence_number) == (4, 17)
    key = table.schema.key_type.types
    assert (deserialize_row(file.min_key, key), deserialize_row(file.max_key, key)) == ((1,), (9,))
    assert (file.level, file.schema_id, file.file_source) == (0, 0, FileSource.APPEND)
    assert deserialize_row(file.key_stats.min_values, key) == (1,)
    assert deserialize_row(file.key_stats.max_values, key) == (9,)
    assert file.key_stats.null_counts == (0,)
    types = [data_type.as_nullable() for data_type in table.schema.fields.types]
    assert file.value_stats_cols is None
    assert deserialize_row(file.value_stats.min_values, types) == (1, "a" * 16, -3.0, None)
    assert deserialize_row(file.value_stats.max_values, types) == (9, "b", 1.5, None)
    assert file.value_stats.null_counts == (0, 1, 1, 3)
    assert read(table, file) == [dict(row) for row in normal_rows(_whole(table, values))]


def _whole(table: FileStoreTable, values: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_batches([rows(table, values)])


def test_nan_has_no_place_between_bounds(tmp_path: Path) -> None:
    """Parquet leaves NaN out of its bounds; a reader that pruned by them would lose the row."""
    table = a_table(tmp_path)
    [file] = write(table, rows(table, [{"k": 1, "d": 1.0}, {"k": 2, "d": math.nan}]))
    types = [data_type.as_nullable() for data_type in table.schema.fields.types]
    assert deserialize_row(file.value_stats.min_values, types)[2] is None
    assert deserialize_row(file.value_stats.max_values, types)[2] is None
    assert file.value_stats.null_counts[2] == 0


@pytest.mark.parametrize("target", ["1 kb", "8 kb", "64 kb"])
def test_files_roll_at_their_target_size(tmp_path: Path, target: str) -> None:
    table = a_table(tmp_path, target_file_size=target)
    values = [{"k": k, "s": hashlib.sha256(b"%d" % k).hexdigest()} for k in range(3000)]
    parts = [rows(table, values[start : start + 300], start) for start in range(0, 3000, 300)]
    files = write(table, *parts)
    target_size = table.schema.target_file_size
    assert len(files) > 1
    # A file ends with the row group that reaches the size: half of it in Arrow's memory.
    assert all(target_size <= file.file_size < 3 * target_size + 3000 for file in files[:-1])
    key = table.schema.key_type.types
    ends: list[tuple[Any, Any]] = [
        (deserialize_row(f.min_key, key)[0], deserialize_row(f.max_key, key)[0]) for f in files
    ]
    assert ends[0][0] == 0
    assert ends[-1][1] == 2999
    assert all(left[1] + 1 == right[0] for left, right in itertools.pairwise(ends))
    assert sum(file.row_count for file in files) == 3000
    assert [row["k"] for file in files for row in read(table, file)] == list(range(3000))


def test_thin_files_have_no_key_columns(tmp_path: Path) -> None:
    for mode in ("true", "false"):
        table = a_table(tmp_path / mode, **{"data-file.thin-mode": mode})
        [file] = write(table, rows(table, [{"k": 5, "s": "a"}]))
        names = pq.read_schema(Path(table.location, "bucket-0", file.file_name)).names
        assert ("_KEY_k" in names) is (mode == "false")
        assert deserialize_row(file.key_stats.min_values, table.schema.key_type.types) == (5,)
        assert [row["k"] for row in read(table, file)] == [5]


def test_names_of_files(tmp_path: Path) -> None:
    table = a_table(tmp_path, **{"data-file.prefix": "d-", "changelog-file.prefix": "c-"})
    files = files_of(table)
    names = []
    for writer in (
        files.changelog_writer(),
        files.data_writer(level=3, file_source=FileSource.COMPACT),
    ):
        writer.write(rows(table, [{"k": 1}]))
        [file] = writer.close()
        names.append(file.file_name)
    assert names[0].startswith("c-")
    assert names[0].endswith("-0.parquet")
    assert names[1].startswith("d-")
    assert names[1].endswith("-1.parquet")
    assert (file.level, file.file_source) == (3, FileSource.COMPACT)


def test_an_abort_leaves_nothing(tmp_path: Path) -> None:
    table = a_table(tmp_path, target_file_size="1 kb")
    writer = files_of(table).data_writer(level=0, file_source=FileSource.APPEND)
    for start in range(0, 600, 200):
        values = [{"k": start + k, "s": f"{k * 7919:060x}"} for k in range(200)]
        writer.write(rows(table, values))
    folder = Path(table.location, "bucket-0")
    assert len(list(folder.iterdir())) > 1
    writer.abort()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("fault_index", range(4))
def test_a_failure_and_an_abort_leave_nothing(tmp_path: Path, fault_index: int) -> None:
    whole = a_table(tmp_path, target_file_size="1 kb")
    fault = Fault(number=fault_index, mode="half")
    table = replace(whole, file_io=FaultyFileIO(fault=fault))
    writer = files_of(table).data_writer(level=0, file_source=FileSource.APPEND)
    values = [{"k": k, "s": f"{k * 7919:060x}"} for k in range(400)]
    with pytest.raises(InjectedError):
        _write_and_close(writer, [rows(table, values[:200]), rows(table, values[200:])])
    writer.abort()
    written_paths = [
        path for path in Path(table.location).glob("bucket-0/*") if path.stat().st_size > 4
    ]
    assert written_paths == []


def _write_and_close(writer: Any, batches: Sequence[pa.RecordBatch]) -> None:
    for batch in batches:
        writer.write(batch)
    writer.close()


# Files of an older schema


def evolved_table(table: FileStoreTable, *fields: DataField) -> FileStoreTable:
    schema = table.schema
    return replace(
        table,
        schema=TableSchema(
            schema_id=1,
            fields=RowType(fields),
            highest_field_id=9,
            partition_keys=(),
            primary_keys=("k",),
            options=schema.options,
        ),
    )


def a_field(number: int, name: str, data_type: str) -> DataField:
    return DataField(field_id=number, name=name, data_type=parse_data_type(data_type))


def test_columns_are_found_by_their_id(tmp_path: Path) -> None:
    """Renamed, dropped, added (also under a name that another column had), moved."""
    old = a_table(tmp_path, "k INT, a STRING, b INT")
    [file] = write(old, rows(old, [{"k": 1, "a": "x", "b": 7}]))
    new = evolved_table(
        old, a_field(4, "a", "STRING"), a_field(3, "c", "BIGINT"), a_field(1, "k", "INT NOT NULL")
    )
    [row] = read(new, file)
    assert row == {"_SEQUENCE_NUMBER": 0, "_VALUE_KIND": 0, "a": None, "c": 7, "k": 1}


@pytest.mark.parametrize("beside", ["", ", n TIMESTAMP(9)"])
def test_widened_types(tmp_path: Path, beside: str) -> None:
    """A file with a TIMESTAMP(9) stores coarse timestamps as plain numbers of their unit."""
    columns = f"k INT, i TINYINT, f FLOAT, m DECIMAL(5,2), t TIMESTAMP(3), s VARCHAR(3){beside}"
    old = a_table(tmp_path, columns)
    time = pa.scalar(1_700_000_000_123, pa.timestamp("ms")).as_py()
    row = {"k": 1, "i": -5, "f": 0.5, "m": "1.25", "t": time, "s": "abc"}
    batch = rows(old, [{key: value for key, value in row.items() if key != "m"}])
    index = batch.schema.get_field_index("m")
    m = pa.array(["1.25"]).cast(pa.decimal128(5, 2))
    batch = batch.set_column(index, batch.schema.field(index), m)
    [file] = write(old, batch)
    new = evolved_table(
        old, a_field(1, "k", "INT NOT NULL"), a_field(2, "i", "DECIMAL(10,2)"),
        a_field(3, "f", "DOUBLE"), a_field(4, "m", "DECIMAL(20,4)"),
        a_field(5, "t", "TIMESTAMP(6)"), a_field(6, "s", "STRING"),
    )  # fmt: skip
    [read_row] = read(new, file)
    assert read_row["t"] == "2023-11-14T22:13:20.123"
    assert str(read_row["i"]) == "-5.00"
    assert str(read_row["m"]) == "1.2500"
    assert (read_row["f"], read_row["s"]) == (0.5, "abc")


@pytest.mark.parametrize(
    ("stored_type", "wanted_type", "keeps"),
    [
        ("INT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT NOT NULL", "INT", True),
        ("INT", "DECIMAL(12,2)", True),
        ("INT", "DECIMAL(11,2)", False),
        ("INT", "DOUBLE", True),
        ("INT", "FLOAT", False),
        ("BIGINT", "DOUBLE", False),
        ("INT", "STRING", False),
        ("FLOAT", "DOUBLE", True),
        ("DOUBLE", "FLOAT", False),
        ("DECIMAL(5,2)", "DECIMAL(6,3)", True),
        ("DECIMAL(5,2)", "DECIMAL(5,3)", False),
        ("DECIMAL(5,2)", "DECIMAL(9,1)", False),
        ("VARCHAR(3)", "STRING", True),
        ("STRING", "VARCHAR(3)", False),
        ("STRING", "BYTES", False),
        ("VARCHAR(3)", "CHAR(5)", False),
        ("CHAR(3)", "VARCHAR(3)", True),
        ("BINARY(2)", "BYTES", True),
        ("BINARY(2)", "BINARY(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP(9)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
        ("TIMESTAMP(6)", "TIMESTAMP(6) WITH LOCAL TIME ZONE", False),
        ("TIMESTAMP(6)", "DATE", False),
        ("DATE", "TIMESTAMP(3)", False),
        ("TIME(0)", "TIME(3)", False),
        ("BOOLEAN", "INT", False),
    ],
)
def test_which_types_keep_their_values(stored_type: str, wanted_type: str, keeps: bool) -> None:
    assert keeps_values(parse_data_type(stored_type), parse_data_type(wanted_type)) is keeps


def test_a_type_that_paimon_does_not_give_is_refused(tmp_path: Path) -> None:
    old = a_table(tmp_path, "k INT, a DOUBLE")
    [file] = write(old, rows(old, [{"k": 1, "a": 0.1}]))
    new = evolved_table(old, a_field(1, "k", "INT NOT NULL"), a_field(2, "a", "BYTES"))
    with pytest.raises(UnsupportedTableError, match="holds column 'a' as DOUBLE") as raised:
        read(new, file)
    assert raised.value.where.endswith(file.file_name)


def test_a_schema_that_is_gone_is_reported(tmp_path: Path) -> None:
    table = a_table(tmp_path, "k INT, a DOUBLE")
    [file] = write(table, rows(table, [{"k": 1, "a": 0.1}]))
    with pytest.raises(CorruptFileError, match="schema 7, with which a data file was") as raised:
        read(table, replace(file, schema_id=7))
    assert raised.value.where.endswith(file.file_name)
    assert "schema/schema-7" in raised.value.fix


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    table = a_table(tmp_path, "k INT, a DOUBLE")
    [file] = write(table, rows(table, [{"k": 1, "a": 0.1}]))
    with pytest.raises(UnsupportedTableError, match="is not one of parquet, orc, avro"):
        read(table, replace(file, file_name="data-1.lance"))
