"""The decoders read the messages of Maxwell, Canal, GoldenGate and DMS, and plain rows."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA, DecodedBatch
from stream_app.cdc.message_format import FormatSetup
from stream_app.errors import UsageError, WrongSourceError
from stream_app.format.arrow_schema import arrow_schema
from stream_app.message_format_registry import FORMATS
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.source.origin import Origin
from tests.support.messages.debezium_messages import (
    a_format,
    captured_messages,
    messages,
    reasons_of,
    rows_of,
)

CUSTOMERS = (
    "id INT, name STRING, tier INT, balance DECIMAL(12,2), joined DATE, updated_at TIMESTAMP(6), "
    "note STRING, raw BYTES, tags STRING, flag BOOLEAN, doc STRING"
)
Row = dict[str, Any]


def decoded_documents(
    name: str, *documents: Any, columns: str = "id INT, v STRING, w STRING", **options: str
) -> DecodedBatch:
    texts = [
        document if isinstance(document, str | None) else json.dumps(document)
        for document in documents
    ]
    format_options = {key.replace("_", "-"): value for key, value in options.items()}
    return a_format(columns, name=name, options=format_options).decode(messages(*texts))


def stored_rows(name: str, *documents: Any, **options: str) -> list[tuple[Any, ...]]:
    outcome = decoded_documents(name, *documents, **options)
    assert reasons_of(outcome) == {}
    return [row[1:] for row in rows_of(outcome)]


def reason(name: str, document: Any, **options: str) -> str:
    outcome = decoded_documents(name, document, **options)
    assert not outcome.changes.rows.num_rows
    return reasons_of(outcome)[0]


@pytest.mark.parametrize("file", ["maxwell", "maxwell_full"])
def test_maxwells_messages_are_what_mariadb_did(file: str) -> None:
    batch = captured_messages(file, file)
    is_customer = pa.array(["customers" in value.decode() for value in batch["value"].to_pylist()])
    batch = batch.filter(is_customer)
    outcome = a_format(CUSTOMERS, name="maxwell-json").decode(batch)
    assert reasons_of(outcome) == {}
    assert set(outcome.tables) == {"shop.customers"}
    rows = [row[1:6] for row in rows_of(outcome)]
    zero, none = Decimal("0.00"), None
    second = datetime.datetime.fromisoformat("2024-02-29 23:59:59")
    assert rows == [
        ("+I", 3, "李雷 🚀", 1, zero),
        ("+I", 4, "Grace", 255, Decimal("9999999999.99")),
        ("-U", 1, "Ada Novak", 1, Decimal("1234.50")),
        ("+U", 1, "Ada Novak", 1, Decimal("1334.75")),
        ("-U", 3, "李雷 🚀", 1, zero),
        ("+U", 30, "李雷 🚀", 1, zero),
        ("-D", 2, "Łukasz", 1, Decimal("-0.01")),
        ("+I", 5, "After DDL", 1, none),
    ]
    (grace, before, after) = rows_of(outcome)[1:4]
    assert grace[6:] == (
        datetime.date(2024, 2, 29), second, 'two\nlines "and"', b"\x00\xff\x10", '["a","c"]', True,
        '{"b": 1.10, "a": [1, null]}',
    )  # fmt: skip
    assert (before[8], after[8]) == (None, "n")


def maxwell(kind: str, data: Row | None, old: Row | None = None, **more: Any) -> Row:
    message = {"database": "d", "table": "t", "type": kind, "data": data, **more}
    return message if old is None else {**message, "old": old}


def test_maxwells_bootstrap_is_a_snapshot_and_its_marks_are_skipped() -> None:
    outcome = decoded_documents(
        "maxwell-json",
        maxwell("bootstrap-start", {}),
        maxwell("bootstrap-insert", {"id": 1, "v": "a", "w": None}),
        maxwell("bootstrap-complete", {}),
        maxwell("insert", {"id": 1}, database="maxwell", table="bootstrap"),
        {"type": "table-drop", "database": "d", "table": "t", "ts": 1, "sql": "DROP TABLE t"},
        None,
    )
    assert rows_of(outcome) == [(1, "+I", 1, "a", None)]
    assert (outcome.skipped_count, reasons_of(outcome)) == (5, {})


def test_maxwells_old_values_may_be_null_or_absent() -> None:
    row = {"id": 1, "v": "b", "w": "w"}
    assert stored_rows("maxwell-json", maxwell("update", row, {"v": None})) == [
        ("-U", 1, None, "w"),
        ("+U", 1, "b", "w"),
    ]
    assert stored_rows("maxwell-json", maxwell("update", row, {"v": "a"}))[0] == ("-U", 1, "a", "w")
    assert stored_rows("maxwell-json", maxwell("update", row, {}))[0] == ("-U", 1, "b", "w")
    nested_row = {**row, "old": {"w": None}, "v": '"old":{"w":null}'}
    assert stored_rows("maxwell-json", maxwell("update", nested_row, {"v": "a"}))[0] == (
        "-U",
        1,
        "a",
        "w",
    )


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("maxwell-json", maxwell("update", {"id": 1}), "has no 'old' with type 'update'"),
        ("maxwell-json", maxwell("insert", None), "has no 'data' with type 'insert'"),
        ("maxwell-json", maxwell("replace", {"id": 1}), "has the unknown type 'replace'"),
        ("maxwell-json", {"data": {"id": 1}}, "has no 'type'"),
        ("maxwell-json", maxwell("insert", {"v": "a"}), "primary key column 'id' is missing"),
        ("canal-json", {"type": "INSERT", "data": []}, "has no rows in 'data' with type 'INSERT'"),
        ("canal-json", {"type": "GRANT", "data": [{"id": "1"}]}, "has the unknown type 'GRANT'"),
        (
            "canal-json",
            {"type": "UPDATE", "data": [{"id": "1"}], "old": []},
            "has no 'old' for each row of 'data': 0 for 1",
        ),
        ("ogg-json", {"op_type": "I"}, "has no 'after' with op_type 'I'"),
        ("ogg-json", {"op_type": "U", "after": {"ID": 1}}, "has no 'before' with op_type 'U'"),
        ("aws-dms-json", {"data": {"id": 1}}, "has no object 'metadata'"),
        ("json", {"phone": 1}, "has no column of the table"),
        ("json", "[1]", "is a JSON array, not an object"),
        ("json", "{", "is not JSON: Expecting property name"),
    ],
)
def test_the_decoder_gives_the_reason_for_a_message_of_another_format(
    name: str, document: Any, expected: str
) -> None:
    assert expected in reason(name, document)


def canal(kind: str, *rows: Row, old: list[Row] | None = None, **more: Any) -> Row:
    return {"data": list(rows), "database": "d", "isDdl": False, "old": old, "type": kind, **more}


def test_canals_rows_of_one_statement_stand_or_fall_together() -> None:
    good_row, bad_row = {"id": "1", "v": "a"}, {"id": "x", "v": "b"}
    outcome = decoded_documents(
        "canal-json", canal("INSERT", good_row, bad_row), canal("INSERT", good_row, good_row)
    )
    assert [row[0] for row in rows_of(outcome)] == [1, 1]
    assert reasons_of(outcome) == {0: "column 'id' (INT): \"x\" is not a value of that type"}


def test_canals_old_values_belong_to_their_row() -> None:
    first, second = {"id": "1", "v": "a", "w": "x"}, {"id": "2", "v": "b", "w": None}
    update = canal("UPDATE", first, second, old=[{"v": None}, {"w": "y"}])
    assert stored_rows("canal-json", update) == [
        ("-U", 1, None, "x"),
        ("+U", 1, "a", "x"),
        ("-U", 2, "b", "y"),
        ("+U", 2, "b", None),
    ]


@pytest.mark.parametrize(
    ("mysql_type", "text", "expected"),
    [
        ("enum('a','it''s')", "2", "it's"),
        ("ENUM('a','b')", "0", ""),
        ("enum('a','b')", "b", "b"),
        ("set('a','b','c')", "5", "a,c"),
        ("set('a','b')", "0", ""),
        ("varchar(20)", "2", "2"),
        (None, "2", "2"),
    ],
)
def test_canals_numbers_of_members_become_their_texts(
    mysql_type: str | None, text: str, expected: str
) -> None:
    message = canal("INSERT", {"id": "1", "v": text, "w": "2"}, mysqlType={"v": mysql_type})
    assert stored_rows("canal-json", message) == [("+I", 1, expected, "2")]


def test_canals_bits_bytes_and_truth_values_are_decoded() -> None:
    columns = "id INT, b BYTES, c BYTES, f BOOLEAN"
    row = {"id": "1", "b": "258", "c": "\u0000ÿa", "f": "1"}
    message = canal("INSERT", row, mysqlType={"b": "bit(16)", "c": "blob"})
    assert stored_rows("canal-json", message, columns=columns) == [
        ("+I", 1, b"\x01\x02", b"\x00\xffa", True)
    ]
    beyond = canal("INSERT", {**row, "c": "€"}, mysqlType={"b": "bit(16)"})
    assert "is not latin-1" in reason("canal-json", beyond, columns=columns)
    member = canal("INSERT", {"id": "1", "v": "3"}, mysqlType={"v": "enum('a')"})
    assert "is not a member of its ENUM or SET (mysqlType enum('a'))" in reason(
        "canal-json", member
    )


def test_ddl_is_skipped_and_a_truncate_stops_the_job_unless_ignored() -> None:
    ddl = {"isDdl": True, "type": "ALTER", "data": None, "database": "d", "table": "t"}
    truncate = {**ddl, "type": "TRUNCATE"}
    assert decoded_documents("canal-json", ddl).skipped_count == 1
    assert decoded_documents("canal-json", truncate, truncate="ignore").skipped_count == 1
    with pytest.raises(WrongSourceError) as caught:
        decoded_documents("canal-json", truncate)
    assert "set source.canal.truncate = 'ignore'" in (caught.value.fix or "")
    with pytest.raises(WrongSourceError):
        decoded_documents("ogg-json", {"table": "S.T", "op_type": "T"})


def test_a_truncate_that_is_applied_is_noted() -> None:
    canal_truncate = {
        "isDdl": True,
        "type": "TRUNCATE",
        "data": None,
        "database": "d",
        "table": "t",
    }
    dms_truncate = {"operation": "truncate-table", "record-type": "control", "table-name": "t"}
    for name, message in (
        ("canal-json", canal_truncate),
        ("ogg-json", {"table": "S.T", "op_type": "T"}),
        ("aws-dms-json", {"data": {}, "metadata": dms_truncate}),
    ):
        outcome = decoded_documents(name, message, truncate="apply")
        assert (outcome.last_truncate, outcome.skipped_count, outcome.bad_records.num_rows) == (
            0,
            1,
            0,
        ), name
        assert decoded_documents(name, message, truncate="ignore").last_truncate is None


def ogg(kind: str, before: Row | None = None, after: Row | None = None) -> Row:
    return {"table": "S.T", "op_type": kind, "before": before, "after": after}


def test_goldengates_compressed_updates() -> None:
    update = ogg("U", {"id": 1, "v": "a"}, {"id": 1, "v": "b"})
    assert "column 'w' is unchanged and its value was not sent" in reason("ogg-json", update)
    changes = stored_rows("ogg-json", update, compressed_updates="null")
    assert changes == [("-U", 1, "a", None), ("+U", 1, "b", None)]
    whole = ogg("U", {"id": 1, "v": "a", "w": "x"}, {"id": 1, "v": None})
    assert stored_rows("ogg-json", whole) == [("-U", 1, "a", "x"), ("+U", 1, None, "x")]
    # An unchanged column is there, so nothing is left out: the source has no column w.
    narrower = {"id": 1, "v": "a", "u": 1}
    columns = "id INT, v STRING, u INT, w STRING"
    assert stored_rows("ogg-json", ogg("U", narrower, {**narrower, "v": "b"}), columns=columns) == [
        ("-U", 1, "a", 1, None),
        ("+U", 1, "b", 1, None),
    ]


def test_goldengate_must_name_the_row_that_an_update_changes() -> None:
    update = ogg("U", {"v": "a", "w": "x"}, {"id": 1, "v": "b", "w": "x"})
    assert "'before' lacks id of the primary key" in reason("ogg-json", update)


def test_goldengates_missing_columns_get_their_earlier_values() -> None:
    before = {"id": "1", "v": None, "v_isMissing": True, "w": "x", "w_isMissing": False}
    after = {"id": "1", "v": "b", "v_isMissing": False, "w": None, "w_isMissing": True}
    assert stored_rows("ogg-json", ogg("U", before, after)) == [
        ("-U", 1, None, "x"),
        ("+U", 1, "b", "x"),
    ]


def dms(operation: str, data: Row | None, kind: str = "data") -> Row:
    metadata = {"record-type": kind, "operation": operation, "schema-name": "s", "table-name": "t"}
    return {"data": data, "metadata": metadata}


def test_dms_updates_with_and_without_values_before() -> None:
    row = {"id": 2, "v": "b", "w": "x"}
    update = dms("update", {**row, "BI_id": 1, "BI_v": None})
    assert stored_rows("aws-dms-json", update) == [("-U", 1, None, "x"), ("+U", 2, "b", "x")]
    bare = dms("update", row)
    assert "it lacks BI_id" in reason("aws-dms-json", bare)
    assert stored_rows("aws-dms-json", bare, update_keys="unchanged") == [("+U", 2, "b", "x")]


def test_dms_loads_deletes_and_control_records() -> None:
    row = {"id": 1, "v": "a", "w": None}
    outcome = decoded_documents(
        "aws-dms-json",
        dms("create-table", None, "control"),
        dms("load", row),
        dms("delete", row),
        columns="id INT, v STRING, w STRING",
    )
    assert rows_of(outcome) == [(1, "+I", 1, "a", None), (2, "-D", 1, "a", None)]
    assert (outcome.skipped_count, outcome.tables) == (1, {"s.t": 1})
    bytes_row = dms("insert", {"id": 1, "v": "0xff00", "w": "0xg"})
    outcome = decoded_documents("aws-dms-json", bytes_row, columns="id INT, v BYTES, w STRING")
    assert rows_of(outcome) == [(0, "+I", 1, b"\xff\x00", "0xg")]


def with_keys(*pairs: tuple[str | None, str]) -> pa.RecordBatch:
    rows = [
        {
            "topic": "t", "partition": 0, "offset": index, "value": value.encode(),
            "key": None if key is None else key.encode(),
        }
        for index, (key, value) in enumerate(pairs)
    ]  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


def test_plain_rows_with_their_key_in_the_messages_key() -> None:
    decoder = a_format(name="json", options={"key-columns": "id"})
    outcome = decoder.decode(
        with_keys(
            ('{"id":1}', '{"v":"a"}'),
            ('{"id":1}', '{"id":2,"v":"b"}'),
            (None, '{"v":"c"}'),
            ("7", '{"v":"d"}'),
            ("7", '{"id":5,"v":"e"}'),
        )
    )
    assert rows_of(outcome) == [(0, "+I", 1, "a"), (1, "+I", 2, "b"), (4, "+I", 5, "e")]
    assert reasons_of(outcome) == {
        2: "primary key column 'id' is missing",
        3: "has a key that is not a JSON object",
    }
    with pytest.raises(UsageError, match="key-columns names x, which the table does not have"):
        a_format(name="json", options={"key-columns": "id,x"})


@pytest.mark.parametrize(
    ("name", "file", "topic", "expected"),
    [
        ("maxwell-json", "maxwell", "maxwell", Origin("shop", "", "customers")),
        ("canal-json", "canal", "shop", Origin("shop", "", "customers")),
        ("ogg-json", "ogg", "SHOP.CUSTOMERS", Origin("SHOP", "", "CUSTOMERS")),
        ("aws-dms-json", "paimon_cdc_tests", "dms.evolution", Origin("test", "", "product")),
        ("json", "paimon_cdc_tests", "json.evolution", Origin("", "", "json.evolution")),
    ],
)
def test_messages_name_their_tables(name: str, file: str, topic: str, expected: Origin) -> None:
    origins = FORMATS[name].make_source_extractor({}).find_origins(captured_messages(file, topic))
    assert origins.tables[0] == expected
    assert not origins.unassigned_reasons


def test_messages_without_a_table_have_no_origin() -> None:
    batch = messages(
        json.dumps(maxwell("insert", {"id": 1})),
        json.dumps(maxwell("bootstrap-start", {})),
        "{",
        json.dumps({**maxwell("insert", {"id": 1}), "table": None}),
        json.dumps({**maxwell("insert", {"id": 1}), "table": 5}),
        None,
    )
    origins = FORMATS["maxwell-json"].make_source_extractor({}).find_origins(batch)
    assert origins.codes.tolist() == [0, -1, -1, -1, -1, -1]
    assert set(origins.unassigned_reasons) == {2, 3, 4}


def test_the_first_messages_show_a_key_that_is_not_there() -> None:
    columns = parse_columns("dt STRING, id INT, name STRING")
    setup = FormatSetup(
        columns=columns,
        arrow_schema=arrow_schema(columns),
        primary_keys=("dt", "id"),
        options={},
        keeps_update_before=False,
    )
    survey = FORMATS["canal-json"].survey(setup, {"shop": captured_messages("canal", "shop")})
    assert [*survey.tables()] == [("shop", "shop.customers")]
    (notice,) = survey.notices()
    assert "lacks dt of the primary key" in notice.problem
    assert notice.where == "topic shop, partition 0, offset 1"
