"""Pages that help quote messages and name options that the code has."""

from __future__ import annotations

import ast
import re
from functools import cache

from stream_app.app.cli.verb_list import VERBS
from stream_app.catalog import catalog_options
from stream_app.message_format_registry import FORMATS
from stream_app.model.options.core_options import OPTIONS
from stream_app.spark.read.source_options import SOURCE_OPTIONS
from tests.tidy.pages.options_page import meanings
from tests.tidy.project_files import modules, nodes_of, text_of, tree_of

TROUBLES = "docs/operate/troubleshooting.md"
MIGRATION = "docs/start/migration.md", "docs/setup/debezium.md"
_GAP = "\0"
_ROW = re.compile(r"^\| (`[^|]+?) \|", re.MULTILINE)
_CODE = re.compile(r"`([^`]+)`")


@cache
def messages() -> str:
    """Every text of the code; what is filled in is a gap."""
    messages = []
    for name in modules("stream_app"):
        for node in nodes_of(tree_of(name)):
            if isinstance(node, ast.JoinedStr):
                parts = [
                    str(part.value) if isinstance(part, ast.Constant) else _GAP
                    for part in node.values
                ]
                messages.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                messages.append(node.value)
    return "\n".join(messages)


def test_messages_of_the_troubleshooting_are_those_of_the_code() -> None:
    """The code has each piece between two `…` in the first column of a table."""
    quoted_messages = [
        text
        for row in _ROW.findall(text_of(TROUBLES))
        for text in _CODE.findall(row)
        if " " in text
    ]
    assert len(quoted_messages) > 40
    assert [
        text
        for text in quoted_messages
        for piece in text.split("…")
        if (words := piece.strip(" '")) and words not in messages()
    ] == []


def test_options_of_the_migration_exist() -> None:
    """Each code in the second column is a key, an option, with or without a value, or a verb."""
    known_names = {key.replace(".…", "") for key in meanings()} | {
        *OPTIONS,
        *SOURCE_OPTIONS,
    }
    known_names |= {f"catalog.{key}" for key in catalog_options.OPTIONS} | {"[catalog]"}
    for format_name, declaration in FORMATS.items():
        known_names |= {option.key for option in declaration.options} | {format_name}
    lines = [line for page in MIGRATION for line in text_of(page).splitlines()]
    rows = [line.split("|") for line in lines if line.startswith("| ") and "| --- |" not in line]
    ours = [code for row in rows for code in _CODE.findall(row[2])]
    assert len(ours) > 150
    assert [code for code in ours if not _is_known(code, known_names)] == []


def _is_known(code: str, known_names: set[str]) -> bool:
    name = code.partition(" = ")[0].strip('"')
    if code.startswith("stream-app "):
        return code.split()[1] in {verb.name for verb in VERBS}
    of_section = name.removeprefix("table.options.").removeprefix("sync.options.")
    of_format = re.sub(r"^source\.(debezium|canal|maxwell|ogg|dms|json)\.", "", name)
    open_ended = any(name.startswith(f"{key}.") for key in ("source.kafka", "spark", "file-system"))
    return bool({name, of_section, of_format} & known_names) or open_ended
