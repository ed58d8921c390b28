"""The texts of `alter` are read as SQL is: a comment may have any words."""

from __future__ import annotations

import pytest

from stream_app.app.cli.arguments.parsed_texts import partition_argument
from stream_app.app.cli.verbs.upkeep.alter import parse_add_column, parse_move
from stream_app.errors import UsageError
from stream_app.planning.schema.schema_changes import ColumnPosition, MoveType


@pytest.mark.parametrize(
    ("text", "comment", "position"),
    [
        ("x INT COMMENT 'time after start'", "time after start", None),
        ("x INT COMMENT 'ordered before delivery'", "ordered before delivery", None),
        ("x INT COMMENT 'aftermath'", "aftermath", None),
        ("x INT COMMENT 'the first'", "the first", None),
        ("x INT COMMENT 'last '", "last ", None),
        ("x INT COMMENT 'it''s after `a`'", "it's after `a`", None),
        ("x INT COMMENT 'not after y' AFTER y", "not after y", "AFTER y"),
        ("x INT COMMENT 'after' first", "after", "FIRST"),
        ("x INT AFTER `d e`", None, "AFTER d e"),
        ("x INT AFTER`y`", None, "AFTER y"),
        ('x INT before "y"', None, "BEFORE y"),
        ("x INT LAST", None, "LAST"),
    ],
)
def test_a_comment_may_have_the_words_of_a_position(
    text: str, comment: str | None, position: str | None
) -> None:
    change = parse_add_column(text)
    kind, _, neighbour = (position or "").partition(" ")
    expected = ColumnPosition(MoveType(kind.lower()), neighbour) if position else None
    assert (change.name, str(change.data_type), change.comment) == ("x", "INT", comment)
    assert change.position == expected


@pytest.mark.parametrize("text", ["x FIRST", "x AFTER y"])
def test_a_column_moves(text: str) -> None:
    assert parse_move(text).name == "x"


def test_two_values_of_a_partition_column_are_refused() -> None:
    """The last one alone would choose another partition than the user named."""
    assert partition_argument("dt=1, region=eu") == {"dt": "1", "region": "eu"}
    with pytest.raises(UsageError, match="has two values of dt") as raised:
        partition_argument("dt=1,dt=2")
    assert raised.value.fix == "name two partitions: dt=1 and dt=2"
