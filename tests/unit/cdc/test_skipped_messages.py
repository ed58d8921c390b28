"""Many tables or one: decoders skip a message without a row, and report an unknown one as bad."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stream_app.cdc.source_tables import NO_TABLE
from stream_app.message_format_registry import make_source_extractor
from tests.support.messages.debezium_messages import a_format, messages

MAXWELL = {"database": "d", "table": "t", "ts": 1, "data": {"id": 1}}
CANAL = {"database": "d", "table": "t", "isDdl": False, "data": [{"id": "1"}]}
OGG = {"table": "d.t", "after": {"id": 1}}
DMS = {"schema-name": "d", "table-name": "t"}
SKIPPED: list[tuple[str, dict[str, Any]]] = [
    ("maxwell-json", {**MAXWELL, "type": "bootstrap-start"}),
    ("maxwell-json", {**MAXWELL, "type": "table-alter"}),
    ("maxwell-json", {**MAXWELL, "type": "database-create"}),
    ("maxwell-json", {**MAXWELL, "type": "insert", "database": "maxwell", "table": "bootstrap"}),
    ("canal-json", {**CANAL, "type": "QUERY"}),
    ("canal-json", {**CANAL, "type": "MHEARTBEAT"}),
    ("canal-json", {**CANAL, "type": "INSERT", "isDdl": True}),
    ("aws-dms-json", {"metadata": {**DMS, "record-type": "control", "operation": "create-table"}}),
    ("aws-dms-json", {"metadata": {**DMS, "record-type": "control", "operation": "drop-table"}}),
    ("aws-dms-json", {"metadata": {**DMS, "record-type": "control", "operation": "add-column"}}),
]
BAD: list[tuple[str, dict[str, Any]]] = [
    ("maxwell-json", {**MAXWELL, "type": "remove"}),
    ("maxwell-json", MAXWELL),
    ("canal-json", {**CANAL, "type": "REMOVE"}),
    ("canal-json", CANAL),
    ("ogg-json", {**OGG, "op_type": "X"}),
    ("ogg-json", OGG),
    ("aws-dms-json", {"metadata": {**DMS, "record-type": "data", "operation": "x"}, "data": {}}),
    ("aws-dms-json", {"metadata": DMS, "data": {}}),
]


@pytest.mark.parametrize(("name", "document"), SKIPPED)
def test_a_message_without_a_row_is_skipped(name: str, document: Any) -> None:
    batch = messages(json.dumps(document))
    origins = make_source_extractor(name, {}).find_origins(batch)
    assert (origins.codes.tolist(), origins.unassigned_reasons) == ([NO_TABLE], {})
    assert a_format("id INT", name=name).decode(batch).skipped_count == 1


@pytest.mark.parametrize(("name", "document"), BAD)
def test_an_unknown_message_is_bad_in_the_table_that_it_names(name: str, document: Any) -> None:
    batch = messages(json.dumps(document))
    origins = make_source_extractor(name, {}).find_origins(batch)
    assert [str(table) for table in origins.tables] == ["d.t"]
    assert origins.codes.tolist() == [0]
    assert a_format("id INT", name=name).decode(batch).bad_records.num_rows == 1


@pytest.mark.parametrize("name", ["maxwell-json", "canal-json", "ogg-json", "aws-dms-json"])
def test_a_message_that_names_no_table_is_unreadable(name: str) -> None:
    origins = make_source_extractor(name, {}).find_origins(messages('{"a":1}', None))
    assert origins.codes.tolist() == [NO_TABLE] * 2
    assert origins.unassigned_reasons == {0: "does not name its table"}
