"""Paimon's Java understands, carries and deletes the statistics of `analyze`."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import stream_app
from stream_app.table.opening import open_file_store_table
from stream_app.table.upkeep.orphan_files import plan_orphans
from tests.support.interop.compacted_tables import FAR_FUTURE_MS
from tests.support.judges.normal_rows import Row, normal_value
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.expire_now import expire
from tests.support.tables.small_table import SmallTable

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

ZONED = dt.datetime(2024, 2, 3, 4, 5, 6, 7000, tzinfo=dt.UTC)
VALUES: dict[str, tuple[str, list[Any]]] = {
    "flag": ("BOOLEAN", [True, False, True, None]),
    "tiny": ("TINYINT", [1, -2, 1, 3]),
    "small": ("SMALLINT", [300, None, None, None]),
    "number": ("INT", [7, 7, 7, 7]),
    "big": ("BIGINT", [2**62, -(2**62), 0, None]),
    "ratio": ("FLOAT", [1.5, -0.25, 2.0**80, 1.5]),
    "rate": ("DOUBLE", [0.0, 1e-7, 123456789.125, 0.5]),
    "short": ("DECIMAL(10, 2)", [Decimal("12.34"), Decimal("-0.05"), None, Decimal("12.34")]),
    "long": ("DECIMAL(30, 5)", [Decimal("123456789012345678.00001")] * 4),
    "day": ("DATE", [dt.date(1969, 12, 30), dt.date(2024, 2, 29), None, None]),
    "clock": ("TIME(3)", [dt.time(3, 4, 5, 6000), dt.time(0), dt.time(23), None]),
    "at": ("TIMESTAMP(6)", [ZONED.replace(tzinfo=None, microsecond=7), None, None, None]),
    "zoned": ("TIMESTAMP(3) WITH LOCAL TIME ZONE", [ZONED, ZONED, None, None]),
    "text": ("STRING", ["a", "", "äöü", None]),
    "code": ("VARCHAR(9)", [None, None, None, None]),
    "raw": ("BYTES", [b"\x00\x01", b"", None, None]),
}
"""A column's type, and its values by the key."""
WIDTHS = {
    "flag": 1, "tiny": 1, "small": 2, "number": 4, "big": 8, "ratio": 4, "rate": 8, "short": 8,
    "long": 16, "day": 4, "clock": 4, "at": 8, "zoned": 8,
}  # fmt: skip
"""Spark's, of types whose values have one."""


@pytest.fixture
def table(paimon_java: PaimonJava, tmp_path: Path) -> Path:
    """Four keys, each of them twice, so that readers see half of the rows in files."""
    path = tmp_path / "db.db" / "t"
    columns = [("k", "INT NOT NULL"), *((name, text) for name, (text, _) in VALUES.items())]
    paimon_java.create(path, columns, primary_keys=("k",), options={"bucket": "2"})
    old = [("+I", {"k": k, "number": -1}) for k in range(4)]
    paimon_java.write(path, old, identifier=0, options={"write-only": "true"})
    paimon_java.write(
        path, [("+I", row(k)) for k in range(4)], identifier=1, options={"write-only": "true"}
    )
    return path


def row(k: int) -> Row:
    return {"k": k, **{name: values[k] for name, (_, values) in VALUES.items()}}


def expected_statistics(name: str, column_id: int) -> dict[str, Any]:
    values = [value for value in VALUES[name][1] if value is not None]
    common = {"id": column_id, "nulls": 4 - len(values), "distinct": len(set(values))}
    if name in WIDTHS:
        low, high = normal_value(min(values)), normal_value(max(values))
        return {**common, "min": low, "max": high, "average": WIDTHS[name], "longest": WIDTHS[name]}
    lengths = [len(value) for value in values]
    sizes = {"average": -(-sum(lengths) // len(lengths)), "longest": max(lengths)} if values else {}
    return {**common, "min": None, "max": None, **sizes}


def test_java_understands_the_statistics_of_every_type(
    paimon_java: PaimonJava, table: Path
) -> None:
    assert stream_app.open_table(table).analyze() == 3
    statistics = paimon_java.statistics(table)
    assert {name: statistics["columns"][name] for name in VALUES} == {
        name: expected_statistics(name, number) for number, name in enumerate(VALUES, start=1)
    }
    sizes = [file["file_size"] for file in paimon_java.files(table)]
    assert (statistics["snapshot"], statistics["schema"], statistics["rows"]) == (2, 0, 4)
    assert statistics["bytes"] == sum(sizes) // 2
    latest_snapshot = paimon_java.snapshots(table)[-1]
    assert (
        latest_snapshot["id"],
        latest_snapshot["commitKind"],
        latest_snapshot["deltaRecordCount"],
    ) == (3, "ANALYZE", 0)
    assert stream_app.open_table(table).read().read_all().num_rows == 4
    assert not stream_app.open_table(table).system("tags").num_rows


def test_columns_that_are_named(paimon_java: PaimonJava, table: Path) -> None:
    stream_app.open_table(table).analyze()
    stream_app.open_table(table).analyze(columns=["text", "k", "text"])
    assert list(paimon_java.statistics(table)["columns"]) == ["k", "text"]


def test_nan_leaves_the_bounds_out(paimon_java: PaimonJava, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    paimon_java.create(path, [("a", "DOUBLE"), ("b", "DOUBLE")], options={"bucket": "-1"})
    values = [("+I", {"a": value, "b": -value}) for value in (0.0, float("nan"), -0.0)]
    paimon_java.write(path, values, identifier=0)
    stream_app.open_table(path).analyze()
    columns = paimon_java.statistics(path)["columns"]
    for name in ("a", "b"):
        assert (columns[name]["distinct"], columns[name]["min"], columns[name]["max"]) == (
            2, None, None,
        )  # fmt: skip


def named_statistics(paimon_java: PaimonJava, table: Path) -> list[str | None]:
    """The file of statistics that each snapshot names."""
    return [snapshot.get("statistics") for snapshot in paimon_java.snapshots(table)]


def statistics_files(table: Path) -> set[str]:
    return {path.name for path in (table / "statistics").iterdir()}


def commit_ours(table: Path) -> None:
    epoch_commit = SmallTable(open_file_store_table(str(table)))
    epoch_commit.commit(("+I", {"k": 9, "number": 1}))


def commit_javas(paimon_java: PaimonJava, table: Path, identifier: int) -> None:
    options = {"write-only": "true"}
    paimon_java.write(table, [("+I", {"k": 8})], identifier=identifier, options=options)


@pytest.mark.parametrize("first", ["ours", "javas"])
def test_both_pass_statistics_on_until_the_schema_changes(
    paimon_java: PaimonJava, table: Path, first: str
) -> None:
    if first == "ours":
        stream_app.open_table(table).analyze()
    else:
        paimon_java.collect_statistics(table)
    name = named_statistics(paimon_java, table)[-1]
    assert statistics_files(table) == {name}
    commit_ours(table)
    commit_javas(paimon_java, table, 5)
    commit_ours(table)
    assert named_statistics(paimon_java, table)[2:] == [name] * 4
    # As in Paimon, the schema of the statistics counts, and not that of the snapshot.
    paimon_java.alter(table, ("add", "later", "INT"))
    copy = table.parent / "copy"
    shutil.copytree(table, copy)
    commit_ours(table)
    commit_javas(paimon_java, copy, 6)
    assert named_statistics(paimon_java, table)[-1] is None
    assert named_statistics(paimon_java, copy)[-1] is None
    assert stream_app.open_table(table).system("statistics").num_rows == 0


def test_statistics_of_an_older_schema_end_as_in_java(paimon_java: PaimonJava, table: Path) -> None:
    """Spark notes the schema of the analyzed snapshot, though a newer one is there."""
    paimon_java.alter(table, ("add", "later", "INT"))
    stream_app.open_table(table).analyze(columns=["k"])
    path = next((table / "statistics").iterdir())
    ours = json.loads(path.read_text())
    del ours["stream_app.digest"]
    path.write_text(json.dumps({**ours, "schemaId": ours["schemaId"] - 1}))
    copy = table.parent / "copy"
    shutil.copytree(table, copy)
    commit_ours(table)
    commit_javas(paimon_java, copy, 6)
    assert (
        named_statistics(paimon_java, table)[-1] is named_statistics(paimon_java, copy)[-1] is None
    )


def test_a_missing_file_ends_the_statistics_and_no_job(
    paimon_java: PaimonJava, table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream_app.open_table(table).analyze()
    next((table / "statistics").iterdir()).unlink()
    commit_ours(table)
    assert named_statistics(paimon_java, table)[-1] is None
    assert "statistics cannot be read, so they end here" in caplog.text


@pytest.mark.parametrize("whose", ["ours", "javas"])
def test_an_expiry_deletes_the_files_that_no_version_names(
    paimon_java: PaimonJava, table: Path, whose: str
) -> None:
    for _ in range(3):
        stream_app.open_table(table).analyze()
        commit_ours(table)
    paimon_java.tag(table, "kept", 5)
    names = named_statistics(paimon_java, table)
    assert statistics_files(table) == {names[2], names[4], names[6]}
    if whose == "ours":
        assert expire(open_file_store_table(str(table)), num_max=1, num_min=1, retained_ms=0) == 7
    else:
        assert paimon_java.expire(table) == 7
    assert statistics_files(table) == {names[4], names[6]}
    assert paimon_java.statistics(table)["rows"] == 5
    (table / "statistics" / "stat-x-0").write_text("{}")
    plan = plan_orphans(open_file_store_table(str(table)), FAR_FUTURE_MS)
    orphans = [Path(file.path) for file in plan.files]
    assert [path.name for path in orphans if path.parent.name == "statistics"] == ["stat-x-0"]
