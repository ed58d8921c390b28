"""The pages show messages, values and lists of any content."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stream_app.app.text.listing import Listing
from stream_app.app.web.pages import (
    PAGE_ENVIRONMENT,
    PageList,
    multiline_text,
    payload,
    short_times,
)
from stream_app.app.web.table_parts import QuarantinedKind
from stream_app.quarantine.quarantine_folder import QuarantinedRecord


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (None, "null"),
        (b'{"a": 1}', '{"a": 1}'),
        (b'{\n  "a": 1\n}', '{\n  "a": 1\n}'),
        (b'{"schema": {}, "payload": {"a": 1.10, "a": 2E+3}}', '{"a": 1.10, "a": 2E+3}'),
        (b'{"payload":"\\ud800","schema":1}', '"\\ud800"'),
        (b'{"schema": 1, "payload": 2, "payload": 3}', '{"schema": 1, "payload": 2, "payload": 3}'),
        (b'{"schema": 1, "payload": {"a"', '{"schema": 1, "payload": {"a"'),
        (b"", ""),
        (b"[" * 5000, "[" * 5000),
        (b"\xff\x00", "\\xff\x00"),
    ],
)
def test_a_message_is_shown_as_it_came(message: bytes | None, shown: str) -> None:
    assert payload(message) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\n  two\r\n\tthree", "one\n  two\n\tthree"),
        ("bell\x07 and \u202eright to left", r"bell\x07 and \u202eright to left"),
        ("a\rb", r"a\rb"),
    ],
)
def test_a_text_keeps_its_lines_and_no_other_control(text: str, shown: str) -> None:
    assert multiline_text(text) == shown


def macro(call: str, **values: object) -> str:
    """Return what a macro of the templates renders."""

    return PAGE_ENVIRONMENT.from_string(
        f'{{% from "parts.html" import {call.split("(", maxsplit=1)[0]} %}}{{{{ {call} }}}}'
    ).render(**values)


def test_an_example_of_several_lines_stands_in_several_lines() -> None:
    record = QuarantinedRecord(
        file="epoch-1.jsonl", topic="t", partition=0, offset=1, timestamp=0,
        reason="is not JSON", key=None, value=b'{\n  "id": 5,\n  "v": "<b>"\n',
    )  # fmt: skip
    kinds = [QuarantinedKind(kind="not-json", record_count=4, is_all=True, examples=(record,))]
    text = macro("quarantined(kinds)", kinds=kinds)
    assert "{\n  &#34;id&#34;: 5,\n  &#34;v&#34;: &#34;&lt;b&gt;&#34;\n" in text
    assert "partition 0, offset 1, 1970-01-01 00:00:00" in text
    assert "The newest 1 are shown" in text


def test_an_escape_in_a_cell_differs_from_a_backslash() -> None:
    text = macro("table('Rows', ['a'], rows)", rows=[["a\nb\\n<i>", None]])
    assert 'a<span class="control">\\n</span>b\\n&lt;i&gt;</td>' in text
    assert '<span class="null">NULL</span>' in text


@dataclass(frozen=True)
class Row:
    snapshot: int
    time: str
    partition: str
    total_records: int
    changelog: int | None


def test_a_list_has_the_columns_that_say_something() -> None:
    rows = [Row(1234, "2026-01-02T03:04:05.678Z", "", 1234567, None)]
    shown = PageList(title="Snapshots", listing=Listing(Row, rows), total=30, which="latest")
    assert [column.name for column in shown.columns] == ["snapshot", "time", "total_records"]
    [cells] = shown.cells()
    assert [cell.text for cell in cells] == ["1234", "2026-01-02 03:04:05", "1,234,567"]
    assert shown.size == "latest 1 of 30"
    assert (
        short_times("at 2026-01-02T03:04:05.678, 2026-01-02")
        == "at 2026-01-02 03:04:05, 2026-01-02"
    )
