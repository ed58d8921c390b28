"""Paimon reads our data files of ORC and Avro, and we continue Paimon's tables."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.schema.data_type import DataType, parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.opening import create_or_open, open_file_store_table
from tests.support.interop.compacted_tables import compact_fully
from tests.support.interop.nested_rows import EVERY_TYPE, Rows
from tests.support.jobs.table_writer import TableWriter, by_content
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import TIME_MS, SteppingClock
from tests.support.tables.sound_table import sound_report

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]
NESTED = (
    f"r ROW<{EVERY_TYPE.replace('CHAR(3)', 'VARCHAR(3)')}>, "
    "m MAP<STRING, ARRAY<DECIMAL(18, 4)>>, n ARRAY<ROW<p INT, q STRING>>, "
    "o MAP<INT, ROW<p DATE, q TIMESTAMP(3)>>"
)
COLUMNS = f"k INT, {EVERY_TYPE}, {NESTED}"


def schema_of(**options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", "write-only": "true", **options},
        time_ms=TIME_MS,
    )


class RowsOfOrc(Rows):
    """Random rows without times that ORC does not hold: fractions of seconds before 1970."""

    def value(self, kind: DataType) -> Any:
        value = super().value(kind)
        if isinstance(value, dt.datetime) and value.year < 1970:
            return value.replace(microsecond=0)
        return value


def assert_same_rows(paimon_java: PaimonJava, path: Path) -> None:
    ours = normal_rows(stream_app.open_table(str(path)).read().read_all())
    assert by_content(ours) == by_content(paimon_java.read(path))


@pytest.mark.parametrize("producer", ["none", "input"])
def test_all_types_in_orc_of_both_writers(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, producer: str
) -> None:
    rng = random.Random(f"{seed} {producer}")
    schema = schema_of(**{"file.format": "orc", "changelog-producer": producer})
    path = tmp_path / "db.db" / "t"
    table = create_or_open(str(path), schema, SteppingClock())
    writer, changes = TableWriter(table), RowsOfOrc(schema, ("+I",), rng)
    whole = {"file.format": "orc", "write-only": "false", "changelog-producer": producer}
    for step in range(4):
        epoch = changes.epoch(25)
        if step % 2:
            paimon_java.write(path, epoch, identifier=100 + step)
        else:
            writer.write(epoch)
        assert_same_rows(paimon_java, path)
        if step == 2:
            compact_fully(replace(table, schema=schema_of(**whole)))
            assert_same_rows(paimon_java, path)
    paimon_java.compact(path, options={"write-only": False})
    assert {Path(file["file_name"]).suffix for file in paimon_java.files(path)} == {".orc"}
    assert_same_rows(paimon_java, path)
    sound_report(open_file_store_table(str(path)))


def test_a_condition_on_char_in_orc_of_java(paimon_java: PaimonJava, tmp_path: Path) -> None:
    """Java's bounds of such a column have blanks behind, and the values have not."""
    path = tmp_path / "db.db" / "t"
    paimon_java.create(
        path, [("k", "INT"), ("c", "CHAR(3)")], primary_keys=["k"],
        options={"bucket": "1", "file.format": "orc"},
    )  # fmt: skip
    paimon_java.write(path, [("+I", {"k": 1, "c": "a"})], identifier=1)
    table = stream_app.open_table(str(path))
    assert table.read(where="c = 'a'").read_all().to_pylist() == [{"k": 1, "c": "a"}]
    assert table.read(where="c = 'a  '").read_all().to_pylist() == []


def test_all_types_in_avro_of_both_writers(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, seed: int
) -> None:
    schema, path = schema_of(**{"file.format": "avro"}), tmp_path / "db.db" / "t"
    table = create_or_open(str(path), schema, SteppingClock())
    changes = Rows(schema, ("+I",), random.Random(f"{seed} avro"))
    writer = TableWriter(table)
    for step in range(4):
        if step % 2:
            paimon_java.write(path, changes.epoch(25), identifier=100 + step)
        else:
            writer.write(changes.epoch(25))
        assert_same_rows(paimon_java, path)
    compact_fully(open_file_store_table(str(path)).with_options({"write-only": "false"}))
    assert {Path(file["file_name"]).suffix for file in paimon_java.files(path)} == {".avro"}
    assert_same_rows(paimon_java, path)
    sound_report(open_file_store_table(str(path)))


@pytest.mark.parametrize("codec", ["zstd", "none", "gzip", "snappy"])
def test_levels_in_avro_and_its_codecs(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, tmp_path: Path, codec: str
) -> None:
    path, columns = tmp_path / "db.db" / "t", "k INT, v STRING, d DECIMAL(9, 2), t TIMESTAMP(6)"
    options = {"bucket": "1", "file.format.per.level": "0:avro", "file.compression": codec}
    schema = new_table_schema(
        columns=parse_columns(columns), primary_keys=("k",), partition_keys=(),
        options=options, time_ms=TIME_MS,
    )  # fmt: skip
    table = create_or_open(str(path), schema, SteppingClock())
    changes = Rows(schema, ("+I",), random.Random(codec))
    writer = TableWriter(table)
    for _ in range(2):
        writer.write(changes.epoch(9))
    compact_fully(open_file_store_table(str(path)))
    TableWriter(open_file_store_table(str(path)), user="second").write(changes.epoch(9))
    suffixes = {Path(file["file_name"]).suffix for file in paimon_java.files(path)}
    assert suffixes == {".avro", ".parquet"}
    assert_same_rows(paimon_java, path)
    ours = normal_rows(stream_app.open_table(str(path)).read().read_all())
    assert by_content(normal_rows(pypaimon.read(path))) == by_content(ours)


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ("k INT, t TIMESTAMP(9)", {}, "6 fractional digits"),
        ("k INT, `a b` INT", {}, "not a name of a field in Avro"),
        ("k INT", {"file.compression": "lz4"}, "no codec lz4"),
    ],
)
def test_the_job_refuses_types_that_avro_lacks_at_its_start(
    columns: str, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        new_table_schema(
            columns=parse_columns(columns), primary_keys=("k",), partition_keys=(),
            options={"bucket": "1", "file.format": "avro", **options}, time_ms=TIME_MS,
        )  # fmt: skip


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Shanghai"])
def test_times_of_orc_do_not_depend_on_the_writers_zone(
    paimon_java: PaimonJava, tmp_path: Path, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java notes its zone in a file; ours has none."""
    path = tmp_path / "db.db" / "t"
    columns = [("k", "INT"), ("a", "TIMESTAMP(6)"), ("b", "TIMESTAMP_LTZ(3)")]
    paimon_java.create(
        path, columns, primary_keys=["k"], options={"bucket": "1", "file.format": "orc"}
    )
    times = [
        dt.datetime(2024, month, day, hour, 30, tzinfo=dt.UTC)
        for month, day in ((1, 2), (3, 10), (7, 9), (11, 3))
        for hour in range(0, 24, 3)
    ]
    rows = [{"k": k, "a": time.replace(tzinfo=None), "b": time} for k, time in enumerate(times)]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.timezone={zone}")
    with PaimonJava() as elsewhere:
        elsewhere.write(path, [("+I", row) for row in rows[::2]], identifier=1)
        assert_same_rows(elsewhere, path)
        TableWriter(open_file_store_table(str(path))).write([("+I", row) for row in rows[1::2]])
        assert_same_rows(elsewhere, path)
    assert_same_rows(paimon_java, path)
    rows_read = stream_app.open_table(str(path)).read().read_all().sort_by("k").to_pylist()
    assert [row["a"] for row in rows_read] == [row["a"] for row in rows]
    assert [row["b"] for row in rows_read] == [row["b"] for row in rows]


def test_rows_within_rows_of_orc_keep_their_values(paimon_java: PaimonJava, tmp_path: Path) -> None:
    """Arrow's writer mistakes the values of null ROWs, and of rows before a slice, for others'."""
    schema = new_table_schema(
        columns=parse_columns("k INT, r ROW<c ROW<d INT, e STRING>>"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "2", "file.format": "orc"},
        time_ms=TIME_MS,
    )
    path = tmp_path / "db.db" / "t"
    table = create_or_open(str(path), schema, SteppingClock())
    values = [{"c": None}, {"c": None}, {"c": {"d": 7, "e": "x"}}, None, {"c": {"d": 8, "e": None}}]
    rows = [{"k": number, "r": value} for number, value in enumerate(values)]
    TableWriter(table).write([("+I", row) for row in rows])
    rows_read = stream_app.open_table(str(path)).read().read_all().to_pylist()
    assert by_content(rows_read) == by_content(rows)
    assert_same_rows(paimon_java, path)


@pytest.mark.parametrize("text", ["9999-12-31", "1677-01-01", "1969-12-31T23:59:59.5"])
def test_times_that_orc_does_not_hold_are_not_written(
    paimon_java: PaimonJava, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "db.db" / "t"
    paimon_java.create(
        path, [("k", "INT"), ("a", "TIMESTAMP(6)")], primary_keys=["k"],
        options={"bucket": "1", "file.format": "orc"},
    )  # fmt: skip
    row = ("+I", {"k": 1, "a": dt.datetime.fromisoformat(text)})
    writer = TableWriter(open_file_store_table(str(path)))
    with pytest.raises(
        UnsupportedTableError, match="ORC cannot hold a time of column 'a' exactly"
    ) as raised:
        writer.write([row])
    assert "alter TABLE --set file.format=parquet" in raised.value.fix
    assert raised.value.where.startswith(f"{path}/bucket-0/data-")
    if text.startswith("9999"):
        paimon_java.write(path, [row], identifier=1)
        with pytest.raises(UnsupportedTableError, match="times of ORC from 1678 to 2261"):
            stream_app.open_table(str(path)).read().read_all()
