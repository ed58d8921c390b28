"""Decodes every literal of a format into every type of column: a value, or a bad record.

``values format=NAME``: each line of the input is a literal. ``types=…`` lists the types of columns,
separated by ``;``. ``!ENCODING`` follows a type whose encoding an option sets. ``schema=`` has the
``type:name:parameter=value`` of Debezium's schema.

Each line of the output is a value, and the types that hold it. In all other types the literal makes
a bad record. The test decodes a literal alone and among neighbours, and expects the same result.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stream_app.cdc.change_batch import DecodedBatch
from stream_app.variants.json_texts import variant_texts
from stream_app.variants.layout import is_variant
from tests.support.messages.debezium_messages import a_format, messages, reasons_of
from tests.support.suite.datadriven import Case, files, run_file

_FORMS = {
    "debezium-json": '{"op":"c","after":ROW}',
    "debezium-bson": '{"op":"c","source":{"connector":"mongodb"},"after":TEXT}',
    "maxwell-json": '{"type":"insert","data":ROW}',
    "canal-json": '{"type":"INSERT","isDdl":false,"data":[ROW]}',
    "ogg-json": '{"op_type":"I","table":"S.T","after":ROW}',
    "aws-dms-json": '{"data":ROW,"metadata":{"record-type":"data","operation":"insert"}}',
    "json": "ROW",
}
_KEY = {"canal-json": '"1"'}


def _handle(case: Case) -> str:
    name = case.args["format"]
    columns = [text.strip() for text in case.args["types"].split(";")]
    lines: list[str] = []
    for literal in case.input_lines:
        by_value: dict[str, list[str]] = defaultdict(list)
        for column in columns:
            value = _value(name, column, literal, case.args)
            if value is not None:
                by_value[value].append(column)
        lines.append(literal)
        lines += [f"  {value} <- {', '.join(types)}" for value, types in by_value.items()]
    return "\n".join(lines)


def _value(name: str, column: str, literal: str, args: Mapping[str, str]) -> str | None:
    """None: the record is bad."""
    schema = args.get("schema", "")
    data_type, _, encoding = column.partition("!")
    options = {"column.v.encoding": encoding} if encoding else {}
    options |= {key: args[key] for key in ("inexact",) if key in args}
    key = _KEY.get(name, "1")
    odd, usual = (
        _message(name, f'{{"id":{key},"v":{text}}}', schema) for text in (literal, "null")
    )
    alone, among = (
        a_format(f"id INT, v {data_type}", options=options, name=name).decode(messages(*values))
        for values in ([odd], [*[usual] * 20, odd, odd])
    )
    texts = {_shown(alone, 0), _shown(among, 20), _shown(among, 21)}
    assert len(texts) == 1, (column, literal, texts)
    return texts.pop()


def _message(name: str, row: str, schema: str) -> str:
    payload = _FORMS[name].replace("ROW", row).replace("TEXT", json.dumps(row))
    if not schema:
        return payload
    literal, semantic, *parameters = schema.split(":")
    field: dict[str, Any] = {"field": "v", "type": literal, "optional": True}
    if semantic:
        field["name"] = semantic
    field["parameters"] = dict(parameter.split("=") for parameter in parameters)
    fields = [{"field": "id", "type": "int32", "optional": False}, field]
    after = {"field": "after", "type": "struct", "fields": fields}
    envelope = json.dumps({"type": "struct", "fields": [after]})
    return f'{{"schema":{envelope},"payload":{payload}}}'


def _shown(decoded_batch: DecodedBatch, message_row: int) -> str | None:
    if message_row in reasons_of(decoded_batch):
        return None
    (place,) = [
        n
        for n, position in enumerate(decoded_batch.changes.message_indices.tolist())
        if position == message_row
    ]
    column = decoded_batch.changes.rows.column("v")
    if is_variant(column.type):
        text: str | None = variant_texts(column.slice(place, 1))[0].as_py()
        return f"a VARIANT of {text}"
    value = column[place].as_py()
    return repr(str(value)) if hasattr(value, "isoformat") else repr(value)


@pytest.mark.slow
@pytest.mark.parametrize("path", files(Path(__file__).parent / "values"), ids=lambda p: p.stem)
def test_literals_become_column_values_or_bad_records(path: Path) -> None:
    run_file(path, _handle)
