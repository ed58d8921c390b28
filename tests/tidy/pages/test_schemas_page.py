"""The code treats types as each row of the tables in docs/setup/schemas.md says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from stream_app.app.cli.verbs.upkeep.alter import CHANGES
from stream_app.cdc.source_types.connect import connect_type
from stream_app.cdc.source_types.mysql import mysql_type
from stream_app.cdc.source_types.postgresql import postgresql_type
from stream_app.model.schema.data_type import DataType
from stream_app.model.source.mapping_options import MEANINGS, NO_MAPPING_OPTIONS, MappingOption
from tests.tidy.project_files import text_of

PAGE = "docs/setup/schemas.md"


def rows_under(heading: str) -> Iterator[list[str]]:
    """The cells of the tables of a section, without the heads."""
    section = re.split(rf"^#+ {re.escape(heading)}$", text_of(PAGE), flags=re.MULTILINE)[1]
    section = re.split(r"^#", section, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def _connect(text: str) -> DataType:
    is_semantic = "." in text
    literal = "" if is_semantic else text
    return connect_type(literal, text * is_semantic, {}, "", NO_MAPPING_OPTIONS).data_type


@pytest.mark.parametrize(
    ("heading", "type_of"),
    [
        ("MySQL and MariaDB", lambda text: mysql_type(text, NO_MAPPING_OPTIONS)),
        ("PostgreSQL", lambda text: postgresql_type(text, NO_MAPPING_OPTIONS)),
        ("Kafka Connect", _connect),
    ],
)
def test_types_are_mapped_as_the_page_says(heading: str, type_of: object) -> None:
    assert callable(type_of)
    rows = list(rows_under(heading))
    assert len(rows) > 10
    for source, expected in rows:
        for text in re.findall(r"`([^`]+)`", source):
            assert str(type_of(text)) == expected, text


def test_the_page_has_every_option_of_the_mapping() -> None:
    assert list(rows_under("Options of the mapping")) == [
        [f"`{option.value}`", MEANINGS[option]] for option in MappingOption
    ]


def test_the_page_has_every_change_by_hand() -> None:
    changes = [row[0].strip("`").split(" ")[0] for row in rows_under("Changes by hand")]
    assert sorted(changes) == sorted([*CHANGES, "--drop-primary-key"])
