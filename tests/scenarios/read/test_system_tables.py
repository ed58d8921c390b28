"""System tables of a small table show what was done to it."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

import stream_app
from stream_app.errors import UsageError
from stream_app.table.read.system_tables import ROW_FORMS, SYSTEM_TABLES, duration_text
from tests.support.tables.small_table import SmallTable, small_table

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Partitions x and y; a delete that is not compacted; the tag "one"."""
    table = small_table(
        tmp_path / "t", "p STRING, k INT, v STRING", ("p", "k"), ("p",), write_only=True
    )
    table.commit(("+I", {"p": "x", "k": 1, "v": "a"}), ("+I", {"p": "y", "k": 2, "v": "b"}))
    table.commit(("+U", {"p": "x", "k": 1, "v": "c"}), ("-D", {"p": "y", "k": 2, "v": "b"}))
    root = Path(table.path)
    (root / "tag").mkdir()
    shutil.copy(root / "snapshot/snapshot-1", root / "tag/tag-one")
    return table


def test_each_system_table_lists_what_there_is(small: SmallTable) -> None:
    table = stream_app.open_table(small.path)
    snapshots = table.system("snapshots").to_pylist()
    assert [(snapshot["snapshot_id"], snapshot["commit_kind"]) for snapshot in snapshots] == [
        (1, "APPEND"), (2, "APPEND"),
    ]  # fmt: skip
    assert snapshots[0]["total_record_count"] == 2
    (schema,) = table.system("schemas").to_pylist()
    assert [field["name"] for field in json.loads(schema["fields"])] == ["p", "k", "v"]
    assert schema["primary_keys"] == '["p","k"]'
    assert json.loads(schema["options"])["write-only"] == "true"
    files = table.system("files").to_pylist()
    assert sorted((file["partition"], file["min_key"]) for file in files) == [
        ("{x}", "[1]"), ("{x}", "[1]"), ("{y}", "[2]"), ("{y}", "[2]"),
    ]  # fmt: skip
    assert files[0]["null_value_counts"] == "{k=0, p=0, v=0}"
    assert all(
        Path(file["file_path"]).stat().st_size == file["file_size_in_bytes"] for file in files
    )
    assert sum(file["deleteRowCount"] for file in files) == 1
    assert len(table.system("files", snapshot=1)) == len(table.system("files", tag="one")) == 2
    assert table.system("manifests").column("num_added_files").to_pylist() == [2, 2]
    (x, y) = table.system("partitions").to_pylist()
    assert (x["partition"], x["record_count"], x["file_count"]) == ("p=x", 2, 2)
    assert x["last_update_time"].tzinfo is None
    assert y["partition"] == "p=y"
    assert table.system("buckets").select(["partition", "bucket", "file_count"]).to_pylist() == [
        {"partition": "{x}", "bucket": 0, "file_count": 2},
        {"partition": "{y}", "bucket": 0, "file_count": 2},
    ]
    assert {"key": "write-only", "value": "true"} in table.system("options").to_pylist()
    (tag,) = table.system("tags").to_pylist()
    assert (tag["tag_name"], tag["snapshot_id"], tag["time_retained"]) == ("one", 1, None)
    assert tag["commit_time"] == snapshots[0]["commit_time"] > dt.datetime(2025, 12, 31)  # noqa: DTZ001


def test_the_audit_log_has_kinds_and_deletes(small: SmallTable) -> None:
    table = stream_app.open_table(small.path)
    log = table.system("audit_log")
    assert log.schema.names == ["rowkind", "p", "k", "v"]
    assert sorted(tuple(row.values()) for row in log.to_pylist()) == [
        ("+U", "x", 1, "c"), ("-D", "y", 2, "b"),
    ]  # fmt: skip
    first = table.system("audit_log", snapshot=1).column("rowkind").to_pylist()
    assert first == ["+I", "+I"]


@pytest.mark.parametrize("keys", [("k",), ()])
@pytest.mark.parametrize("name", [*SYSTEM_TABLES, *ROW_FORMS])
def test_an_empty_table_has_them_all(tmp_path: Path, name: str, keys: tuple[str, ...]) -> None:
    small = small_table(tmp_path / "t", "k INT", keys)
    rows = stream_app.open_table(small.path).system(name)
    assert isinstance(rows, pa.Table)
    assert rows.num_rows == {"schemas": 1, "options": 1, "aggregation_fields": 1}.get(name, 0)


def test_an_append_table_has_files_without_keys(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT")
    small.commit(("+I", {"k": 1}))
    table = stream_app.open_table(small.path)
    (file,) = table.system("files").to_pylist()
    assert (file["min_key"], file["record_count"], file["partition"]) == (None, 1, "{}")
    assert table.system("audit_log").to_pylist() == [{"rowkind": "+I", "k": 1}]


def test_an_unknown_system_table_is_refused(small: SmallTable) -> None:
    with pytest.raises(UsageError, match="unknown system table 'file'; did you mean 'files'"):
        stream_app.open_table(small.path).system("file")


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (0, "PT0S"),
        (86_400_500, "PT24H0.5S"),
        (61_000, "PT1M1S"),
        (3_600_000, "PT1H"),
        (7_320_012, "PT2H2M0.012S"),
    ],
)
def test_a_duration_is_printed_as_java_prints_it(millis: int, text: str) -> None:
    assert duration_text(millis) == text


def test_the_read_optimized_table_is_what_is_compacted_whole(tmp_path: Path) -> None:
    small = small_table(tmp_path / "t", "k INT, v STRING", ("k",), num_levels=2)
    table = stream_app.open_table(small.path)
    for number in range(6):
        small.commit(("+I", {"k": number % 3, "v": str(number)}))
    small.compact()
    small.commit(("+I", {"k": 9, "v": "later"}))
    top = [file for file in table.system("files").to_pylist() if file["level"] == 1]
    read = table.system("ro").to_pylist()
    assert top
    assert sum(file["record_count"] for file in top) == len(read)
    assert {"k": 9, "v": "later"} not in read
