"""Our file indexes have Java's bytes; Java and we skip files by them, and find every row."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import stream_app
from stream_app.errors import CorruptFileError
from stream_app.format.file_index.container import decode_file_index, encode_file_index
from stream_app.format.file_index.file_index_registry import FILE_INDEX_KINDS
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.file_index_problems import can_index
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    DropColumn,
    RenameColumn,
    SetOption,
)
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.opening import create_or_open, open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.interop.nested_rows import EVERY_TYPE, Rows
from tests.support.jobs.table_writer import CompactInCaller, TableWriter
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.support.tables.small_table import TIME_MS, Change, SteppingClock

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("unsynced")]

COLUMNS = f"k INT, {EVERY_TYPE}, few INT, word STRING"
SETTINGS = {
    "bloom-filter": {"items": "500", "fpp": "0.02"},
    "bitmap": {"index-block-size": "128 b"},
    "range-bitmap": {"chunk-size": "64 b"},
}


def schema_of(kind: str, **options: str) -> TableSchema:
    columns = parse_columns(COLUMNS)
    names = [column.name for column in columns if can_index(kind, column.data_type)]
    settings = {
        f"file-index.{kind}.{name}.{key}": value
        for name in ("k", "word")
        for key, value in SETTINGS.get(kind, {}).items()
    }
    return new_table_schema(
        columns=columns,
        primary_keys=("k",),
        partition_keys=(),
        options={
            "bucket": "1",
            "write-only": "true",
            f"file-index.{kind}.columns": ",".join(names),
            **settings,
            **options,
        },
        time_ms=TIME_MS,
    )


def index_of(path: Path) -> bytes:
    """The index of the table's only file, wherever it is."""
    table = open_file_store_table(str(path))
    [entry] = FileStoreScan(table).live(table.snapshots.latest())
    if entry.file.embedded_index is not None:
        assert not entry.file.extra_files
        return entry.file.embedded_index
    [index] = table.paths.extra_files(entry.partition, entry.bucket, entry.file)
    return Path(index).read_bytes()


def rows_of(schema: TableSchema, rng: random.Random, count: int) -> list[Change]:
    """Rows of different keys; of each of `few` and `word` some values repeat."""
    return [
        (
            kind,
            {
                **row,
                "l": max(row["l"], 1 - 2**63),  # Java fails to write the least BIGINT into a bsi
                "k": place,
                "few": rng.choice([None, 1, 2, 3]),
                "word": f"{'word' * rng.randrange(12)}-{place}",
            },
        )
        for place, (kind, row) in enumerate(Rows(schema, ("+I",), rng).epoch(count))
    ]


EVERY_KIND = {f"file-index.{kind}.columns": "few,l,k,word" for kind in FILE_INDEX_KINDS} | {
    "file-index.bsi.columns": "l,few,k",
}
OPTIONS: dict[str, dict[str, str]] = {
    "a file": {"file-index.in-manifest-threshold": "1 b"},
    "in the manifest": {"file-index.in-manifest-threshold": "1 gb"},
    "version 1": {f"file-index.bitmap.{name}.version": "1" for name in ("k", "few", "word", "s")},
    "every kind": EVERY_KIND,
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *((kind, name) for kind in FILE_INDEX_KINDS for name in ("a file", "in the manifest")),
        ("bitmap", "version 1"),
        ("bitmap", "every kind"),
    ],
)
def test_file_indexes_have_the_bytes_of_javas(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, kind: str, name: str
) -> None:
    rng = random.Random(f"{seed} {kind}")
    schema = schema_of(kind, **OPTIONS[name])
    ours, javas = (tmp_path / "db.db" / name for name in ("ours", "javas"))
    rows = rows_of(schema, rng, 300)
    for path in (ours, javas):
        create_or_open(str(path), schema, SteppingClock())
    TableWriter(open_file_store_table(str(ours))).write(rows)
    paimon_java.write(javas, rows, identifier=1)
    mine, theirs = decode_file_index(index_of(ours)), decode_file_index(index_of(javas))
    assert mine.keys() == theirs.keys()
    for column, bodies in theirs.items():
        assert mine[column] == bodies, column
    assert index_of(ours) == index_of(javas)
    assert encode_file_index(theirs) == index_of(javas)


WORDS = [f"{kind}{place:03}" for place in range(40) for kind in ("sand", "sea", "sky")]
"""Each file has a third of them, from the first to the last: its bounds exclude none."""


def words_table(path: Path, kind: str, **options: str) -> TableSchema:
    return new_table_schema(
        columns=parse_columns("k INT, word STRING, amount BIGINT"),
        primary_keys=(),
        partition_keys=(),
        options={
            "bucket": "-1",
            "write-only": "true",
            f"file-index.{kind}.columns": "amount" if kind == "bsi" else "word,amount",
            **options,
        },
        time_ms=TIME_MS,
    )


def write_words(write: Any, epochs: int) -> list[Row]:
    """A commit for each share of the words; returns all rows."""
    rows = [
        {"k": place, "word": word, "amount": 7 * place - 300} for place, word in enumerate(WORDS)
    ]
    for epoch in range(epochs):
        write([("+I", row) for row in rows[epoch::epochs]])
    return rows


@pytest.mark.parametrize("writer", ["ours", "java"])
@pytest.mark.parametrize("threshold", ["1 b", "1 mb"])
@pytest.mark.parametrize("kind", FILE_INDEX_KINDS)
def test_files_without_the_value_are_not_opened(
    paimon_java: PaimonJava, tmp_path: Path, kind: str, threshold: str, writer: str
) -> None:
    """The other files are gone, so that a reader that opens one fails."""
    path = tmp_path / "db.db" / "t"
    schema = words_table(path, kind, **{"file-index.in-manifest-threshold": threshold})
    create_or_open(str(path), schema, SteppingClock())
    if writer == "ours":
        rows = write_words(TableWriter(open_file_store_table(str(path))).write, 3)
    else:
        numbers = count(1)
        rows = write_words(
            lambda new_rows: paimon_java.write(path, new_rows, identifier=next(numbers)), 3
        )
    row = rows[31]
    for file in path.rglob("data-*.parquet"):
        keys = pq.read_table(file, columns=["k"]).column("k").to_pylist()
        if row["k"] not in keys:
            file.unlink()
    table = stream_app.open_table(str(path))
    assert table.read(where=f"amount = {row['amount']}").read_all().to_pylist() == [row]
    assert row in paimon_java.read(path, where={"amount": row["amount"]})
    with pytest.raises(CorruptFileError, match="missing"):
        table.read(where=f"amount <> {row['amount']}").read_all()
    alter_table(open_file_store_table(str(path)), [SetOption("file-index.read.enabled", "false")])
    table = stream_app.open_table(str(path))
    with pytest.raises(CorruptFileError, match="missing"):
        table.read(where=f"amount = {row['amount']}").read_all()


@pytest.mark.parametrize("kind", FILE_INDEX_KINDS)
def test_versions_of_a_row_are_skipped_together(
    paimon_java: PaimonJava, tmp_path: Path, seed: int, kind: str
) -> None:
    """A file with an older version that matches never brings it back."""
    rng, path = random.Random(f"{seed} {kind}"), tmp_path / "db.db" / "t"
    schema = replace(schema_of(kind), options={**schema_of(kind).options, "write-only": "false"})
    create_or_open(str(path), schema, SteppingClock())
    writer = TableWriter(open_file_store_table(str(path)), CompactInCaller)
    for step in range(6):
        rows = rows_of(schema, rng, 30)
        if step % 3:
            writer.write(rows)
        else:
            paimon_java.write(path, rows, identifier=100 + step)
    writer.commit.compact_due()
    table = stream_app.open_table(str(path))
    everything = table.read().read_all()
    for condition in (
        "few = 2",
        "few IN (1, 3)",
        "few IS NULL",
        "word = 'word-3'",
        "few > 2",
        "NOT few = 2 AND l > 0",
        "few = 1 OR word < 'word'",
        "NOT (few IN (1, 2))",
    ):
        got = table.read(where=condition).read_all()
        expected = row_filter(condition, open_file_store_table(str(path)).schema).expression
        assert normal_rows(got) == normal_rows(everything.filter(expected)), condition


def test_a_renamed_column_keeps_its_index_and_a_dropped_one_goes(
    paimon_java: PaimonJava, tmp_path: Path
) -> None:
    path = tmp_path / "db.db" / "t"
    options = {"file-index.bloom-filter.word.fpp": "0.01"}
    create_or_open(str(path), words_table(path, "bloom-filter", **options), SteppingClock())
    write_words(TableWriter(open_file_store_table(str(path))).write, 2)
    alter_table(
        open_file_store_table(str(path)), [RenameColumn("word", "noun"), DropColumn("amount")]
    )
    table = open_file_store_table(str(path))
    assert table.schema.options["file-index.bloom-filter.columns"] == "noun"
    assert table.schema.options["file-index.bloom-filter.noun.fpp"] == "0.01"
    alter_table(table, [AddColumn(name="amount", data_type=parse_columns("a BIGINT").types[0])])
    rows = [("+I", {"k": 500, "noun": "new", "amount": 1})]
    TableWriter(open_file_store_table(str(path)), user="second").write(rows)
    paimon_java.write(path, [("+I", {"k": 501, "noun": "newer", "amount": 2})], identifier=9)
    reader = stream_app.open_table(str(path))
    for where, keys in (
        ("noun = 'sea003'", [10]),
        ("noun = 'new'", [500]),
        ("noun = 'newer'", [501]),
        ("amount = 1", [500]),
        ("amount = -300", []),
    ):
        assert reader.read(columns=["k"], where=where).read_all().column("k").to_pylist() == keys
    assert 10 in [row["k"] for row in paimon_java.read(path, where={"noun": "sea003"})]
