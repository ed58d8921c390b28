"""Each format stores a tool's values as the tables in docs/setup/formats.md say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import DecodedBatch
from tests.support.messages.debezium_messages import a_format, messages, reasons_of

PAGE = (Path(__file__).parents[4] / "docs" / "setup" / "formats.md").read_text()
MESSAGES = {
    "Maxwell": ("maxwell-json", '{"type":"insert","data":ROW}'),
    "Canal": ("canal-json", '{"type":"INSERT","isDdl":false,"data":[ROW]}'),
    "GoldenGate": ("ogg-json", '{"op_type":"I","table":"S.T","after":ROW}'),
    "AWS DMS": (
        "aws-dms-json",
        '{"data":ROW,"metadata":{"record-type":"data","operation":"insert"}}',
    ),
    "Plain rows": ("json", "ROW"),
    "MongoDB": ("debezium-bson", '{"op":"c","source":{"connector":"mongodb"},"after":TEXT}'),
}


def documented_lines() -> list[tuple[str, str, str, str]]:
    """(heading, column, sent, stored_text) of each line."""
    rows = []
    for heading in MESSAGES:
        section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
        table = section.split("| column | sent | stored |\n")[1].split("\n\n")[0]
        for line in table.splitlines()[1:]:
            column, sent, stored_text = (cell.strip() for cell in line.strip("|").split(" | "))
            rows.append((heading, column.strip(), sent.strip("`"), stored_text))
    return rows


def decoded_value(heading: str, column: str, sent: str) -> DecodedBatch:
    name, form = MESSAGES[heading]
    text = '"1"' if name == "canal-json" else "1"
    row = f'{{"id":{text},"v":{sent}}}'
    message = form.replace("ROW", row).replace("TEXT", json.dumps(row))
    return a_format(f"id INT, v {column}", name=name).decode(messages(message))


def shown_text(value: pa.Scalar) -> str:
    plain: Any = value.as_py()
    if isinstance(plain, bytes):
        return f"0x{plain.hex()}"
    if isinstance(plain, bool):
        return str(plain).lower()
    return str(value.cast(pa.string()))


@pytest.mark.parametrize(("heading", "column", "sent", "stored_text"), documented_lines())
def test_a_value_is_stored_as_the_page_says(
    heading: str, column: str, sent: str, stored_text: str
) -> None:
    outcome = decoded_value(heading, column, sent)
    if stored_text == "bad":
        assert re.match("column 'v' ", reasons_of(outcome)[0])
    else:
        assert reasons_of(outcome) == {}
        shown_value = shown_text(outcome.changes.rows.column("v")[0])
        # Arrow has no type for whole seconds.
        assert (
            shown_value.removesuffix(".000") if column.endswith("(0)") else shown_value
        ) == stored_text


def test_each_section_has_a_table() -> None:
    assert {heading for heading, *_ in documented_lines()} == set(MESSAGES)
