"""The job says once which values a column loses; init and the doctor say it each time."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from stream_app.app.table_setup.first_message_checks import (
    snapshot_only_remarks,
    tables_in_messages,
)
from stream_app.message_format_registry import make_source_extractor
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.source.mapping_options import (
    NO_MAPPING_OPTIONS,
    InexactTimes,
    parse_mapping_options,
)
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_table import SourceTable
from stream_app.planning.sync.column_remarks import (
    remarks_of_added,
    remarks_of_existing,
    remarks_of_new,
)
from stream_app.planning.sync.partition_roots import TableSample, partition_roots
from tests.support.messages.debezium_messages import messages

MICRO_TIME = {"type": "int64", "name": "io.debezium.time.MicroTime"}


def message(op: str = "c", *, names: list[str] | None = None, **fields: Any) -> str:
    """A change with its schema; each field is a value and what the schema says of it."""
    columns = [
        {"field": name, "type": "int32", "optional": True, **facts}
        for name, (_, facts) in fields.items()
    ]
    row = {"field": "after", "type": "struct", "fields": columns}
    after = {name: value for name, (value, _) in fields.items()}
    payload = {"op": op, "after": after, "source": {"connector": "postgresql"}}
    return json.dumps({"schema": {"type": "struct", "fields": [row]}, "payload": payload})


def described_table(
    *values: str, options: dict[str, str] | None = None, inexact: InexactTimes = InexactTimes.NUMBER
) -> SourceTable:
    source_extractor = make_source_extractor("debezium-json", options or {})
    description = source_extractor.describe(
        messages(*values), parse_mapping_options([], inexact=inexact)
    )
    assert description is not None
    return description


def remarks(table: SourceTable) -> list[str]:
    return [remark.text() for remark in remarks_of_new(table.columns)]


def test_a_nullable_column_with_a_default_may_have_lost_nulls() -> None:
    default = {"default": 7}
    [remark] = remarks_of_new(described_table(message(a=(1, default), b=(2, default))).columns)
    assert remark.columns == ("a", "b")
    assert "a null arrives as the DEFAULT" in remark.text()
    assert "value.converter.replace.null.with.default = false" in remark.remedy("source.{}".format)
    assert "source.replace.null.with.default = 'false'" in remark.remedy("source.{}".format)


@pytest.mark.parametrize(
    ("value", "schema", "options"),
    [
        (None, {"default": 7}, {}),  # this null was not replaced
        (1, {"default": 7, "optional": False}, {}),
        (1, {"default": None}, {}),
        (1, {"default": 7}, {"replace.null.with.default": "false"}),
    ],
)
def test_where_no_null_is_lost_nothing_is_said(value: Any, schema: Any, options: Any) -> None:
    assert remarks(described_table(message(a=(value, schema)), options=options)) == []


@pytest.mark.parametrize(
    ("inexact", "data_type", "words"),
    [
        ("number", "BIGINT", "column t is BIGINT, microseconds since midnight, because"),
        ("string", "STRING", "column t is STRING, because Paimon's TIME keeps milliseconds"),
        ("truncate", "TIME(3)", "column t has microseconds at the source"),
    ],
)
def test_a_time_with_microseconds_is_said_when_it_is_made(
    inexact: str, data_type: str, words: str
) -> None:
    table = described_table(message(t=(1, MICRO_TIME)), inexact=InexactTimes(inexact))
    assert str(table.columns[0].data_type) == data_type
    assert remarks(table)[0].startswith(words)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "int64", "parameters": {"type": "BIGINT UNSIGNED"}}, "arrive negative"),
        ({"type": "double", "parameters": {"type": "NUMERIC"}}, "floating-point"),
        (
            {
                "type": "int64",
                "name": "org.apache.kafka.connect.data.Timestamp",
                "parameters": {"type": "TIMESTAMP", "scale": "6"},
            },
            "sends milliseconds",
        ),
        ({"type": "int64", "name": "io.debezium.time.MicroDuration"}, "average month"),
    ],
)
def test_what_the_connector_has_lost_is_said(schema: dict[str, Any], words: str) -> None:
    prefix = "__debezium.source.column."
    parameters = {prefix + name: value for name, value in schema.pop("parameters", {}).items()}
    [line] = remarks(described_table(message(a=(1, {**schema, "parameters": parameters}))))
    assert words in line


def test_an_added_default_is_said_of_the_column_that_came_with_it() -> None:
    table = described_table(message(id=(1, {}), a=(1, {"default": 7, "optional": False})))
    [remark] = remarks_of_added([table.columns[1]])
    assert remark.columns == ("a",)
    assert "rows from before have it there, and null here" in remark.text()
    # The doctor knows by the first schema of the table which columns came later.
    columns = parse_columns("id INT, a INT")
    [field, late] = [column.field_id for column in columns]
    assert remarks_of_existing(table, columns, {field, late}, inexact="inexact") == []
    [again] = remarks_of_existing(table, columns, {field}, inexact="inexact")
    assert again == remark


def test_a_time_of_an_older_table_is_said_to_be_cut() -> None:
    table = described_table(message(t=(1, MICRO_TIME)))
    [remark] = remarks_of_existing(table, parse_columns("t TIME(3)"), {0}, inexact="inexact")
    assert "they are cut off" in remark.text()
    assert "sync.inexact = 'number'" in remark.remedy("sync.{}".format)
    assert not remarks_of_existing(table, parse_columns("t BIGINT"), {0}, inexact="inexact")


def test_a_column_that_only_the_snapshot_has() -> None:
    source_extractor = make_source_extractor("debezium-json", {})

    def alone(*values: str) -> list[str]:
        remarks = snapshot_only_remarks(source_extractor, messages(*values), NO_MAPPING_OPTIONS)
        return [remark.text() for remark in remarks]

    read, change = message("r", id=(1, {}), g=(2, {})), message("u", id=(1, {}))
    [line] = alone(read, change)
    assert line.startswith("column g is in the rows of the initial snapshot, and not in those")
    assert alone(read, message("u", id=(1, {}), g=(2, {}))) == []
    assert alone(read) == []
    assert alone(change, read) == []


def test_the_root_of_partitions_stands_still() -> None:
    root, leaf, other = (Origin("shop", "public", name) for name in ("part", "p25", "orders"))
    rows = [message("r", id=(number, {}), v=(number, {})) for number in range(3)]
    change = message("u", id=(0, {}), v=(7, {}))
    parts: dict[Origin, pa.RecordBatch] = {
        root: messages(*rows),
        leaf: messages(rows[0], change),
        other: messages(message("c", id=(1, {}), v=(1, {}))),
    }
    assert partition_roots(tables_in_messages(parts)) == {root: [leaf]}
    assert (
        partition_roots(tables_in_messages({root: messages(*rows, change), leaf: parts[leaf]}))
        == {}
    )


def test_tables_of_two_schemas_or_of_other_columns_are_not_partitions() -> None:
    row = frozenset({b"1"})
    columns = frozenset({"id"})
    still_sample = TableSample(columns=columns, snapshot_rows=row, is_changed=False)
    changed_sample = TableSample(columns=columns, snapshot_rows=row, is_changed=True)
    root = Origin("shop", "a", "t")
    assert partition_roots({root: still_sample, Origin("shop", "b", "u"): changed_sample}) == {}
    wider = TableSample(columns=columns | {"v"}, snapshot_rows=row, is_changed=True)
    assert partition_roots({root: still_sample, Origin("shop", "a", "u"): wider}) == {}
    assert partition_roots({root: still_sample, Origin("shop", "a", "u"): still_sample}) == {}
