"""PyPaimon 2.1 and Paimon's Rust read our columns of type VECTOR, and we read PyPaimon's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.app.cli.main import main
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open, open_file_store_table, require_writable
from tests.support.interop.compacted_tables import compact_fully
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.tables.small_table import TIME_MS, SteppingClock
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")
COLUMNS = "k INT, v VECTOR<FLOAT, 3>, b VECTOR<BOOLEAN, 2>, n BIGINT, r ROW<d VECTOR<DOUBLE, 1>>"
KINDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "deduplicate": (("k",), {"changelog-producer": "lookup"}),
    "partial-update": (("k",), {"merge-engine": "partial-update"}),
    "full": (("k",), {"changelog-producer": "full-compaction"}),
    "append": ((), {"bucket-key": "k"}),
}


def a_table(folder: Path, keys: tuple[str, ...], options: dict[str, str]) -> FileStoreTable:
    schema = new_table_schema(
        columns=parse_columns(COLUMNS),
        primary_keys=keys,
        partition_keys=(),
        options={"bucket": "2", **options},
        time_ms=TIME_MS,
    )
    return create_or_open(str(folder / "db.db" / "t"), schema, SteppingClock())


def some_row(noise: random.Random, k: int) -> dict[str, Any]:
    def perhaps(value: Any) -> Any:
        return None if noise.random() < 0.3 else value

    return {
        "k": k,
        "v": perhaps([noise.randrange(100) / 4 for _ in range(3)]),
        "b": perhaps([noise.random() < 0.5, True]),
        "n": noise.randrange(9),
        "r": perhaps({"d": perhaps([noise.random()])}),
    }


@pytest.mark.parametrize("kind", list(KINDS))
def test_merged_and_compacted_vectors_are_read_by_others(
    pypaimon: PyPaimonReader, tmp_path: Path, seed: int, kind: str
) -> None:
    noise, (keys, options) = random.Random(f"{seed} {kind}"), KINDS[kind]
    table = a_table(tmp_path, keys, options)
    writer, model = TableWriter(table), dict[int, dict[str, Any]]()
    appended_rows: list[dict[str, Any]] = []
    for _ in range(3):
        rows = [some_row(noise, k) for k in noise.sample(range(30), 12)]
        writer.write([("+I", row) for row in rows])
        appended_rows += rows
        for row in rows:
            older = model.get(row["k"], {}) if kind == "partial-update" else {}
            set_values = {name: value for name, value in row.items() if value is not None}
            model[row["k"]] = {**dict.fromkeys(row), **older, **set_values}
    expected = by_content(model.values() if keys else appended_rows)
    for _ in range(2):
        assert by_content(read_rows(table)) == expected
        assert by_content(normal_rows(pypaimon.read(tmp_path / "db.db" / "t"))) == expected
        assert by_content(normal_rows(pypaimon.read_by_rust(tmp_path / "db.db" / "t"))) == expected
        compact_fully(table)
    shown = PaimonTable(table).read(columns=["v", "n"]).read_all()
    assert shown.schema.field("v").type.list_size == 3
    assert shown.schema == PaimonTable(table).schema.empty_table().select(["v", "n"]).schema
    assert by_content(shown.to_pylist()) == by_content(
        {"v": row["v"], "n": row["n"]} for row in (model.values() if keys else appended_rows)
    )
    where = "v[0] > 5 AND b[1] OR r.d[0] < 0.5"
    assert by_content(PaimonTable(table).read(where=where).read_all().to_pylist()) == by_content(
        row
        for row in (model.values() if keys else appended_rows)
        if (row["v"] and row["b"] and row["v"][0] > 5)
        or (row["r"] and row["r"]["d"] and row["r"]["d"][0] < 0.5)
    )
    assert findings_of(table) == []


def test_a_table_of_pypaimon_is_continued(pypaimon: PyPaimonReader, tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("k", pa.int32(), nullable=False),
            ("v", pa.list_(pa.float32(), 2)),
            ("t", pa.string()),
        ]
    )
    rows = [{"k": k, "v": [float(k), k / 2], "t": "theirs"} for k in range(8)]
    place = tmp_path / "db.db" / "t"
    pypaimon.write(place, pa.Table.from_pylist(rows, schema), primary_keys=["k"],
                   options={"bucket": 1})  # fmt: skip
    table = require_writable(open_file_store_table(str(place)))
    assert str(table.schema.fields.field("v").data_type) == "VECTOR<FLOAT, 2>"
    assert by_content(read_rows(table)) == by_content(rows)
    TableWriter(table).write([("+I", {"k": 3, "v": [0.5, 7.0], "t": "ours"})])
    expected = by_content(
        {"k": 3, "v": [0.5, 7.0], "t": "ours"} if row["k"] == 3 else row for row in rows
    )
    for _ in range(2):
        assert by_content(read_rows(table)) == expected
        assert by_content(normal_rows(pypaimon.read(place))) == expected
        compact_fully(table)


def test_a_split_of_an_older_version_has_the_columns_of_its_schema(tmp_path: Path) -> None:
    older = a_table(tmp_path, ("k",), {})
    rows: list[dict[str, Any]] = [{"k": 1, "v": [1.0, 2.0, 3.0]}, {"k": 2, "v": None}]
    TableWriter(older).write([("+I", row) for row in rows])
    (split,) = PaimonTable(older).splits()
    rename_arguments = ["--rename-column", "v=w", "--rename-column", "n=v"]
    assert main(["alter", older.location, *rename_arguments]) == 0
    table = PaimonTable(open_file_store_table(older.location))
    batches = table.read_split(split, columns=["k", "v"]).read_all()
    assert batches.schema.field("v").type.list_size == 3
    assert by_content(batches.to_pylist()) == by_content(rows)


@pytest.mark.parametrize(
    ("vector", "why"),
    [
        ([1.0], "1 elements"),
        ([1.0, None, 2.0], "an element of a vector is null"),
        ([1.0, 2.0, 1e300], "a number is out of the range of FLOAT"),
    ],
)
def test_overwrites_take_vectors_of_the_right_length(
    tmp_path: Path, vector: list[Any], why: str
) -> None:
    table = a_table(tmp_path, ("k",), {})
    whole = pa.table({"k": [1], "v": pa.array([[1, 2, 3]], pa.list_(pa.float32(), 3))})
    PaimonTable(table).overwrite(whole)
    assert [row["v"] for row in read_rows(table)] == [[1.0, 2.0, 3.0]]
    with pytest.raises(UsageError, match=why):
        PaimonTable(table).overwrite(pa.table({"k": [1], "v": [vector]}))


@pytest.mark.parametrize("file_format", ["parquet", "avro"])
def test_vectors_are_printed_as_json(
    tmp_path: Path, file_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = a_table(tmp_path, ("k",), {"file.format": file_format})
    vectors = pa.array([[1.5, 2, 3], None], pa.list_(pa.float32(), 3))
    PaimonTable(table).overwrite(pa.table({"k": [1, 2], "v": vectors}))
    read = ["read", table.location, "--columns", "k,v", "--where", "k < 3", "--format"]
    outputs = {}
    for output_format in ("csv", "jsonl", "table"):
        assert main([*read, output_format]) == 0
        outputs[output_format] = sorted(capsys.readouterr().out.splitlines())
    assert outputs["csv"] == ['"k","v"', '1,"[1.5,2.0,3.0]"', "2,"]
    assert outputs["jsonl"] == ['{"k":1,"v":[1.5,2.0,3.0]}', '{"k":2,"v":null}']
    assert any("[1.5,2.0,3.0]" in line for line in outputs["table"])
    out = tmp_path / "rows.parquet"
    assert main([*read, "parquet", "--out", str(out)]) == 0
    assert by_content(pq.read_table(out).to_pylist()) == by_content(
        [{"k": 1, "v": [1.5, 2.0, 3.0]}, {"k": 2, "v": None}]
    )


@pytest.mark.parametrize(
    ("columns", "keys", "options", "why"),
    [
        ("k INT, v VECTOR<INT, 2>", ("v",), {}, "which is VECTOR<INT, 2>"),
        ("k INT, v VECTOR<INT, 2>", ("k",), {"file.format": "orc"}, "ORC cannot hold"),
        ("k INT, v VECTOR<INT, 2>", ("k",), {"vector-field": "k"}, "not a column of type VECTOR"),
    ],
)
def test_what_vectors_cannot_be_is_refused(
    columns: str, keys: tuple[str, ...], options: dict[str, str], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        new_table_schema(
            columns=parse_columns(columns),
            primary_keys=keys,
            partition_keys=(),
            options={"bucket": "1", **options},
            time_ms=TIME_MS,
        )
