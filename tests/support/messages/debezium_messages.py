"""Builders for the tests of `cdc`: messages, formats, captured topics and readable rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA, ROW_KIND, DecodedBatch, TableTraits
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import Pipeline
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.row_kind import RowKind
from stream_app.model.schema.data_type import parse_columns

FIXTURES = Path(__file__).parents[2] / "fixtures" / "cdc"
Value = str | bytes | None


def messages(
    *values: Value, topic: str = "t", partition: int = 0, key: str | None = '{"id":0}'
) -> pa.RecordBatch:
    """Return a batch of one topic's messages, offsets from 0; each has the same key."""
    raw = [value.encode() if isinstance(value, str) else value for value in values]
    same = {
        "topic": topic,
        "partition": partition,
        "key": None if key is None else key.encode(),
    }
    rows = [{**same, "offset": offset, "value": value} for offset, value in enumerate(raw)]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def fixture_lines(file: str) -> list[dict[str, Any]]:
    """Return the captured messages of all topics, in the order of the file."""
    lines = (FIXTURES / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def captured_messages(file: str, topic: str) -> pa.RecordBatch:
    """Return the captured messages of one topic, in the order of the file."""
    records = [record for record in fixture_lines(file) if record["topic"] == topic]
    assert records, f"{file} has no topic {topic}"
    rows = [
        {
            "topic": record["topic"],
            "partition": record["partition"],
            "offset": record["offset"],
            "key": None if record["key"] is None else record["key"].encode(),
            "value": None if record["value"] is None else record["value"].encode(),
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def a_format(
    columns: str = "id BIGINT, v STRING",
    keys: Sequence[str] = ("id",),
    *,
    keeps_update_before: bool = True,
    options: Mapping[str, str] | None = None,
    traits: TableTraits | None = None,
    name: str = "debezium-json",
) -> Pipeline:
    """Return a format, Debezium's unless named, for a table of these columns."""
    row_type = parse_columns(columns)
    return format_pipeline(
        name,
        FormatSetup(
            columns=row_type,
            arrow_schema=arrow_schema(row_type),
            primary_keys=tuple(keys),
            options=options or {},
            keeps_update_before=keeps_update_before,
            traits=traits or TableTraits(),
        ),
    )


def rows_of(decoded_batch: DecodedBatch) -> list[tuple[Any, ...]]:
    """Return each row as (message index, kind, value, value, …)."""
    rows = decoded_batch.changes.rows
    lists = [_python_values(rows.column(index)) for index in range(1, rows.num_columns)]
    kinds = [RowKind(kind).short for kind in rows.column(ROW_KIND).to_pylist()]
    return list(zip(decoded_batch.changes.message_indices.tolist(), kinds, *lists, strict=True))


def _python_values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # datetime has no nanoseconds: text keeps them.
        return column.cast(pa.string()).to_pylist()
    return column.to_pylist()


def reasons_of(decoded_batch: DecodedBatch) -> dict[int, str]:
    """Return the reason of each bad record, by offset."""
    bad_records = decoded_batch.bad_records.to_pylist()
    return {record["offset"]: record["reason"] for record in bad_records}


def event(op: str = "c", *, after: str = "null", before: str = "null") -> str:
    """Return a change event with the given JSON texts as images."""
    return f'{{"before":{before},"after":{after},"source":{{"lsn":1}},"op":"{op}","ts_ms":1}}'


def value_of(column_type: str, text: str, **options: str) -> Any:
    """Return what a column of that type holds after an insert of the JSON text, or a `Bad`."""
    decoder = a_format(f"id BIGINT, v {column_type}", options=options)
    decoded_batch = decoder.decode(messages(event(after=f'{{"id":1,"v":{text}}}')))
    if decoded_batch.bad_records.num_rows:
        return Bad(reasons_of(decoded_batch)[0])
    return rows_of(decoded_batch)[0][3]


class Bad(str):
    """The reason of a bad record."""

    __slots__ = ()
