"""The judges, Paimon's Java and PyPaimon, read and write tables of Paimon's Java correctly."""

from __future__ import annotations

import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.judges.line_server import LineServer, LineServerError
from tests.support.judges.normal_rows import (
    json_value,
    normal_rows,
    normal_value,
    sorted_rows,
    without_nanoseconds,
)
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.judges.paimon_jvm import java_tool
from tests.support.judges.pypaimon_reader import PyPaimonError, PyPaimonReader
from tests.support.tables.make_java_tables import SCALAR_COLUMNS, TABLES, scalar_row

pytestmark = pytest.mark.java

FIXTURE_TABLES = ("scalars", "composite_key", "changelog_input")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "shop.db" / "orders"


def create_small(java: PaimonJava, table: Path, **options: Any) -> None:
    java.create(
        table,
        [("k", "INT NOT NULL"), ("v", "STRING")],
        primary_keys=["k"],
        options={"bucket": 1, **options},
    )


def assert_both_read(
    java: PaimonJava, pypaimon: PyPaimonReader, table: Path, expected: list[dict[str, Any]]
) -> None:
    assert sorted_rows(java.read(table)) == sorted_rows(expected)
    rows = without_nanoseconds(normal_rows(pypaimon.read(table)))
    assert sorted_rows(rows) == sorted_rows(without_nanoseconds(expected))


def test_both_judges_read_what_java_wrote_deleted_and_compacted(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, table: Path
) -> None:
    paimon_java.create(
        table, SCALAR_COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"],
        options={"bucket": 2},
    )  # fmt: skip
    rows = [scalar_row("a", number) for number in range(12)]
    only_level0 = {"write-only": True}
    paimon_java.write(table, [("+I", row) for row in rows], identifier=1, options=only_level0)
    assert_both_read(paimon_java, pypaimon, table, rows)

    paimon_java.write(table, [("-D", rows[5])], identifier=2, options=only_level0)
    remaining_rows = rows[:5] + rows[6:]
    assert_both_read(paimon_java, pypaimon, table, remaining_rows)

    assert paimon_java.compact(table) == 3
    assert {file["level"] for file in paimon_java.files(table)} == {5}
    assert sum(file["row_count"] for file in paimon_java.files(table)) == len(remaining_rows)
    assert_both_read(paimon_java, pypaimon, table, remaining_rows)

    assert paimon_java.expire(table) == 2
    assert [snapshot["commitKind"] for snapshot in paimon_java.snapshots(table)] == ["COMPACT"]
    assert_both_read(paimon_java, pypaimon, table, remaining_rows)


@pytest.mark.parametrize(
    "column", ["id", "an_int", "a_decimal38", "a_date", "a_varchar", "a_float"]
)
def test_point_reads_return_the_row(paimon_java: PaimonJava, column: str) -> None:
    expected = scalar_row("2024-01-01", 4)
    rows = paimon_java.read(
        TABLES / "java.db" / "scalars",
        where={column: expected[column], "id": 4, "dt": expected["dt"]},
    )
    assert rows == [expected]


def test_a_point_read_prunes_to_one_bucket_and_names_only_the_columns(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader
) -> None:
    table = TABLES / "java.db" / "composite_key"
    where = {"country": "b" * 40, "code": "日本"}
    result = paimon_java.read_splits(table, where=where, columns=["code"])
    assert len({split["bucket"] for split in result.splits}) <= 1
    assert result.rows == normal_rows(pypaimon.read(table, where=where, columns=["code"]))


def test_conditions_other_than_equality(paimon_java: PaimonJava, table: Path) -> None:
    create_small(paimon_java, table)
    rows = [{"k": k, "v": None if k == 0 else str(k)} for k in range(4)]
    paimon_java.batch_write(table, [("+I", row) for row in rows])
    assert paimon_java.read(table, where={"v": None}) == rows[:1]
    assert paimon_java.read(table, where={"k": [1, 3]}) == [rows[1], rows[3]]
    assert paimon_java.read(table, where={"k": {"op": ">=", "value": 2}}) == rows[2:]


def test_changelog_gives_each_kind_in_order(paimon_java: PaimonJava, table: Path) -> None:
    create_small(paimon_java, table, **{"changelog-producer": "input"})
    first = [("+I", {"k": 1, "v": "a"}), ("+I", {"k": 2, "v": "b"})]
    second = [
        ("-U", {"k": 1, "v": "a"}), ("+U", {"k": 1, "v": "a2"}), ("-D", {"k": 2, "v": "b"}),
        ("+I", {"k": 3, "v": "c"}),
    ]  # fmt: skip
    paimon_java.write(table, first, identifier=1)
    paimon_java.write(table, second, identifier=2)
    plans = paimon_java.changelog(table)
    assert [(plan.snapshot, plan.changes) for plan in plans] == [(1, first), (2, second)]
    assert [plan.snapshot for plan in paimon_java.changelog(table, from_snapshot=2)] == [2]


def test_a_full_first_plan_holds_the_table(paimon_java: PaimonJava, table: Path) -> None:
    create_small(paimon_java, table)
    for number in (1, 2):
        paimon_java.batch_write(table, [("+U", {"k": number, "v": "a"})])
    (plan,) = paimon_java.changelog(table, options={"scan.mode": "latest-full"})
    assert [row for _, row in plan.changes] == [{"k": 1, "v": "a"}, {"k": 2, "v": "a"}]
    assert {kind for kind, _ in plan.changes} == {"+U"}, "the kinds are those of the files"


def test_an_identifier_that_is_committed_is_not_committed_again(
    paimon_java: PaimonJava, table: Path
) -> None:
    create_small(paimon_java, table)
    row = {"k": 1, "v": "a"}
    paimon_java.write(table, [("+I", row)], identifier=7, commit_user="u")
    again = [("+I", row | {"v": "b"})]
    assert paimon_java.write(table, again, identifier=7, commit_user="u", recover=True) == 1
    assert paimon_java.read(table) == [row]
    (snapshot,) = paimon_java.snapshots(table)
    assert (snapshot["commitUser"], snapshot["commitIdentifier"]) == ("u", 7)


def test_nested_values_read_alike(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, table: Path
) -> None:
    fields = [
        {"id": 3, "name": "x", "type": "DECIMAL(5, 2)"},
        {"id": 4, "name": "y", "type": "BYTES"},
    ]
    paimon_java.create(
        table,
        [
            ("k", "INT NOT NULL"),
            ("times", {"type": "ARRAY", "element": "TIMESTAMP(6)"}),
            ("amounts", {"type": "MAP", "key": "STRING", "value": "DOUBLE"}),
            ("pair", {"type": "ROW", "fields": fields}),
        ],
        primary_keys=["k"],
        options={"bucket": 1},
    )
    row = {
        "k": 1,
        "times": ["2024-01-02T03:04:05.1", None],
        "amounts": [("a", "NaN"), ("b", None), ("c", -1.5)],
        "pair": {"x": Decimal("1.50"), "y": b"\x00"},
    }
    nulls: dict[str, Any] = {"k": 2, "times": None, "amounts": [], "pair": {"x": None, "y": None}}
    paimon_java.batch_write(table, [("+I", row), ("+I", nulls)])
    assert_both_read(paimon_java, pypaimon, table, [row, nulls])


def test_time_travel_and_system_tables(paimon_java: PaimonJava, table: Path) -> None:
    create_small(paimon_java, table)
    for number in (1, 2):
        paimon_java.batch_write(table, [("+I", {"k": 1, "v": str(number)})])
    assert paimon_java.read(table, snapshot=1) == [{"k": 1, "v": "1"}]
    assert len(paimon_java.read(f"{table}$snapshots")) == 2


def test_a_corrupt_table_is_an_error_and_the_judges_live_on(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, table: Path
) -> None:
    create_small(paimon_java, table)
    paimon_java.batch_write(table, [("+I", {"k": 1, "v": "a"})])
    (data_file,) = table.glob("bucket-0/data-*.parquet")
    content = data_file.read_bytes()
    data_file.write_bytes(content[:-4])
    with pytest.raises(PaimonError) as error:
        paimon_java.read(table)
    assert "not a Parquet file" in str(error.value) or "EOF" in str(error.value)
    with pytest.raises(PyPaimonError):
        pypaimon.read(table)

    data_file.write_bytes(content)
    assert_both_read(paimon_java, pypaimon, table, [{"k": 1, "v": "a"}])


def test_a_table_that_is_not_there_is_an_error(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, table: Path
) -> None:
    with pytest.raises(PaimonError, match="does not exist"):
        paimon_java.read(table)
    with pytest.raises(PyPaimonError, match="does not exist"):
        pypaimon.read(table)


def test_without_a_compiler_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="need a JDK 17"):
        java_tool("javac")


def test_the_error_about_a_dead_child_has_its_last_lines() -> None:
    child = LineServer(
        [sys.executable, "-c", "import sys; print('{}', flush=True); input(); sys.exit('no more')"]
    )
    with pytest.raises(LineServerError, match=r"code 1(?s:.*)no more"):
        child.call({})
    child.close()


@pytest.mark.parametrize("name", FIXTURE_TABLES)
def test_committed_tables_hold_the_rows_of_their_json(
    paimon_java: PaimonJava, pypaimon: PyPaimonReader, name: str
) -> None:
    table = TABLES / "java.db" / name
    expected = json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))
    rows = [json_value(row) for row in paimon_java.read(table)]
    assert sorted_rows(rows) == sorted_rows(expected["rows"])
    rows = [json_value(row) for row in normal_rows(pypaimon.read(table))]
    microseconds = without_nanoseconds(expected["rows"])
    assert sorted_rows(without_nanoseconds(rows)) == sorted_rows(microseconds)
    if "changelog" in expected:
        rows = [
            [plan.snapshot, kind, row]
            for plan in paimon_java.changelog(table)
            for kind, row in plan.changes
        ]
        assert rows == expected["changelog"]


def test_the_scalar_table_has_both_kinds_of_files_and_deletes(paimon_java: PaimonJava) -> None:
    files = paimon_java.files(TABLES / "java.db" / "scalars")
    assert len({(file["partition"]["dt"], file["bucket"]) for file in files}) == 4
    assert {file["level"] for file in files} == {0, 5}
    assert any(file["delete_row_count"] for file in files)


def test_nanoseconds_are_cut_and_nothing_else() -> None:
    texts = ["2024-01-02T03:04:05.000000001", "2024-01-02T03:04:05.120000001Z", "1.1234567", None]
    cut = ["2024-01-02T03:04:05", "2024-01-02T03:04:05.12Z", "1.1234567", None]
    assert without_nanoseconds([{"t": t} for t in texts]) == [{"t": t} for t in cut]


@pytest.mark.parametrize(
    ("value", "normal"),
    [
        (dt.datetime(2024, 1, 2, 3, 4), "2024-01-02T03:04:00"),  # noqa: DTZ001
        (dt.datetime(2024, 1, 2, 3, 4, 5, 120_000, dt.UTC), "2024-01-02T03:04:05.12Z"),
        (dt.time(12, 0, 0, 500_000), "12:00:00.5"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        (float("nan"), "NaN"),
        ([(1, float("nan"))], [(1, "NaN")]),
    ],
)
def test_python_literals_have_a_normal_form(value: Any, normal: Any) -> None:
    assert normal_value(value) == normal


def test_arrow_nested_values_have_a_normal_form() -> None:
    kind = pa.struct([("m", pa.map_(pa.string(), pa.decimal128(3, 1))), ("t", pa.timestamp("ms"))])
    value = {"m": [("b", Decimal("1.0")), ("a", None)], "t": dt.datetime(1969, 12, 31)}  # noqa: DTZ001
    (row,) = normal_rows(pa.table({"r": pa.array([value], kind)}))
    assert row == {"r": {"m": [("a", None), ("b", Decimal("1.0"))], "t": "1969-12-31T00:00:00"}}
