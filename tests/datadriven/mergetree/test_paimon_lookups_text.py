"""Compactions that look up earlier rows write the changes and vectors that Paimon's tests expect.

A case is a table and rows of its levels. The test compacts the lowest levels by the table's
options. Rows behind ``above`` lie further up, and the compaction looks them up there.

Source: Paimon `LookupChangelogMergeFunctionWrapperTest.java`, `LookupLevelsTest.java`,
`FullChangelogMergeFunctionWrapperTestBase.java`, `BucketedDvMaintainerTest.java`.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.files.compact_request import CompactRequest, CompactUnit
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.bucket_compaction import compact_bucket
from tests.support.files.memory_file_io import MemoryFileIO
from tests.support.jobs.table_writer import KIND_TEXTS
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.small_table import KINDS, SteppingClock

HERE = Path(__file__).parent
PARTITION = b"\0\0\0\0" * 3


def table_of(case: Case) -> FileStoreTable:
    options = {key: value for key, value in case.args.items() if "." in key or "-" in key}
    schema = new_table_schema(
        columns=parse_columns(case.args["columns"]),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", **options},
        time_ms=0,
    )
    clock = SteppingClock()
    return FileStoreTable("/t", schema, MemoryFileIO(clock), clock)


def write_file(table: FileStoreTable, level: int, lines: list[list[str]]) -> DataFileMeta:
    """Write a file of a level; a line is ``+I 1 2 #7``: kind, values, sequence number."""
    fields = table.schema.fields
    rows = [
        {
            name: None if text == "null" else int(text)
            for name, text in zip(fields.names, words[1:-1], strict=True)
        }
        for words in lines
    ]
    batch = pa.RecordBatch.from_pylist(rows, arrow_schema(fields))
    kinds = pa.array([int(KINDS[words[0]]) for words in lines], pa.int8())
    numbers = pa.array([int(words[-1].removeprefix("#")) for words in lines], pa.int64())
    system = {SEQUENCE_NUMBER: numbers, VALUE_KIND: kinds}
    columns = [system[f.name] if f.name in system else batch.column(f.name)
               for f in table.layout().schema]  # fmt: skip
    writer = table.bucket_files(PARTITION, 0).data_writer(
        level=level, file_source=FileSource.APPEND
    )
    writer.write(pa.RecordBatch.from_arrays(columns, schema=table.layout().schema))
    [meta] = writer.close()
    return meta


def compact(case: Case) -> str:
    table = table_of(case)
    lines = [line.split() for line in case.input_lines]
    levels = groupby(lines, key=lambda words: (words[0] == "above", words[words[0] == "above"]))
    unit: list[DataFileMeta] = []
    above: list[DataFileMeta] = []
    for (is_above, level), rows in levels:
        words = [line[1 + is_above :] for line in rows]
        (above if is_above else unit).append(write_file(table, int(level[1:]), words))
    output = min((file.level for file in above), default=6) - 1
    change = compact_bucket(
        table,
        CompactRequest(
            partition=PARTITION,
            bucket=0,
            unit=CompactUnit(output, tuple(unit), "a test"),
            drops_deletes=table.merges_by_vectors or output == 5,
            max_level=5,
            files_above=tuple(above),
        ),
    )
    texts = [f"data: {shown(table, change.added_files)}"]
    if change.changelog_files:
        texts.append(f"changelog: {shown(table, change.changelog_files)}")
    for entry in change.written_index_entries:
        for name, vector in table.deletion_vector_files.read(entry).items():
            [level] = [file.level for file in above if file.file_name == name]
            texts.append(f"deleted: rows {vector.positions().tolist()} of level {level}")
    return "\n".join(texts)


def shown(table: FileStoreTable, files: tuple[DataFileMeta, ...]) -> str:
    rows = [
        row
        for file in files
        for batch in table.bucket_files(PARTITION, 0).read(file)
        for row in batch.to_pylist()
    ]
    names = table.schema.fields.names
    texts = [
        " ".join([KIND_TEXTS[row[VALUE_KIND]], *(str(row[name]) for name in names)]) for row in rows
    ]
    return ", ".join(texts) or "none"


@pytest.mark.parametrize("name", ["paimon_lookups", "paimon_full_changelogs"])
def test_lookup_compactions_write_the_changes_that_paimon_expects(name: str) -> None:
    run_file(HERE / f"{name}.txt", compact)
