"""``stream-app alter``: changes columns, options and comments of a table in one new schema.

The command line names the changes in their order.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from stream_app.app.cli.arguments.table import add_table_and_dry_run, open_table_argument
from stream_app.app.cli.output.upkeep_steps import run_upkeep
from stream_app.errors import UsageError
from stream_app.model.options.core_options import lasting_refusals
from stream_app.model.schema.data_type import parse_data_type
from stream_app.planning.schema import schema_changes as change
from stream_app.table.opening import require_alterable
from stream_app.table.schema.alter import alter_table, next_schema

_NAME = r"\s*(?:`([^`]+)`|\"([^\"]+)\"|([^\s`\"']+))"
_NAME_AND_REST = re.compile(_NAME + r"\s+(.+?)\s*", re.DOTALL)
_POSITION = re.compile(
    rf"(?P<rest>.*?)\s*(?<!\S)(?:(?P<end>FIRST|LAST)|(?P<side>BEFORE|AFTER)(?=[\s`\"]){_NAME})\s*",
    re.DOTALL | re.IGNORECASE,
)
"""The end of the text. Words of a comment are no position, because the comment's quote follows."""
_COMMENT = re.compile(r"(?P<type>.+?)\s+COMMENT\s+'(?P<text>(?:[^']|'')*)'\s*", re.I | re.DOTALL)
_DROP_KEY = "--drop-primary-key"
DESCRIPTION = "Change a table's columns, options and comments, as one new schema."
EPILOG = """\
The rows stay as they are: readers of every engine cast and fill older files. Running jobs of
stream-app take the new schema with their next epoch.

examples:
  stream-app alter warehouse/shop.db/orders --add-column "note STRING AFTER qty" --dry-run
  stream-app alter shop.orders --change-type "qty BIGINT" --rename-column note=remark
  stream-app alter shop.orders --set snapshot.time-retained=2h --unset num-levels"""


def parse_add_column(text: str) -> change.AddColumn:
    """Parse a new column, such as ``x DECIMAL(12,2) COMMENT 'text' AFTER y``."""
    name, rest = _name_and_rest(text, "x INT AFTER y")
    rest, position = _split_position(rest)
    comment = None
    if match := _COMMENT.fullmatch(rest):
        rest, comment = match["type"], match["text"].replace("''", "'")
    return change.AddColumn(
        name=name, data_type=parse_data_type(rest), comment=comment, position=position
    )


def parse_change_type(text: str) -> change.ChangeType:
    """Parse a column and its new type, such as ``x BIGINT``."""
    name, rest = _name_and_rest(text, "x BIGINT")
    data_type = parse_data_type(rest)
    if not data_type.nullable:
        raise UsageError(
            f"a change of the type leaves nulls as they are: {text!r}",
            fix="give the type without NOT NULL; --not-null and --nullable change the rest",
        )
    return change.ChangeType(name, data_type)


def parse_move(text: str) -> change.MoveColumn:
    """Parse a column and its new place, such as ``x FIRST`` or ``x AFTER y``."""
    name, rest = _name_and_rest(text, "x AFTER y")
    rest, position = _split_position(rest)
    if position is None or rest:
        raise _syntax_error(text, "x FIRST, x LAST, x BEFORE y or x AFTER y")
    return change.MoveColumn(name, position)


def _name_and_rest(text: str, example: str) -> tuple[str, str]:
    match = _NAME_AND_REST.fullmatch(text)
    if match is None:
        raise _syntax_error(text, example)
    return match[1] or match[2] or match[3], match[4]


def _split_position(text: str) -> tuple[str, change.ColumnPosition | None]:
    match = _POSITION.fullmatch(text)
    if match is None:
        return text, None
    if match["end"]:
        return match["rest"], change.ColumnPosition(change.MoveType(match["end"].lower()))
    column = match[4] or match[5] or match[6]
    return match["rest"], change.ColumnPosition(change.MoveType(match["side"].lower()), column)


def _key_and_value(text: str, example: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (sign and name.strip()):
        raise _syntax_error(text, example)
    return name.strip(), value.strip()


def _syntax_error(text: str, example: str) -> UsageError:
    return UsageError(f"cannot read the change {text!r}", fix=f"write it like {example}")


CHANGES: dict[str, tuple[str, str, Callable[[str], change.SchemaChange]]] = {
    "--add-column": (
        "'X TYPE'",
        "add a column; may end in COMMENT 'text' and FIRST, BEFORE Y or AFTER Y",
        parse_add_column,
    ),
    "--rename-column": (
        "X=Y",
        "rename a column; its values stay",
        lambda text: change.RenameColumn(*_key_and_value(text, "old=new")),
    ),
    "--drop-column": ("X", "drop a column", change.DropColumn),
    "--change-type": ("'X TYPE'", "give a column another type", parse_change_type),
    "--nullable": (
        "X",
        "let a column be null",
        lambda text: change.ChangeNullability(text, nullable=True),
    ),
    "--not-null": (
        "X",
        "forbid nulls in a column",
        lambda text: change.ChangeNullability(text, nullable=False),
    ),
    "--move-column": ("'X AFTER Y'", "move a column: FIRST, LAST, BEFORE Y, AFTER Y", parse_move),
    "--comment-column": (
        "X=TEXT",
        "comment a column; an empty text removes the comment",
        lambda text: change.SetColumnComment(*_key_and_value_or_none(text, "x=a text")),
    ),
    "--default": (
        "X=VALUE",
        "give a column a default value; an empty one removes it",
        lambda text: change.SetColumnDefault(*_key_and_value_or_none(text, "x=0")),
    ),
    "--comment": ("TEXT", "comment the table", lambda text: change.SetTableComment(text or None)),
    "--set": (
        "KEY=VALUE",
        "set an option",
        lambda text: change.SetOption(*_key_and_value(text, "num-levels=6")),
    ),
    "--unset": ("KEY", "reset an option to its default", change.UnsetOption),
}
"""Argument → its value, its meaning, and its parser."""


def _key_and_value_or_none(text: str, example: str) -> tuple[str, str | None]:
    name, value = _key_and_value(text, example)
    return name, value or None


class _Append(argparse.Action):
    """An action that collects the changes of all arguments in one list, in their order."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002 - argparse passes it
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        assert option_string is not None, "these arguments have names"
        arguments = [*getattr(namespace, self.dest), (option_string, values)]
        setattr(namespace, self.dest, arguments)


def add_schema_changes(parser: argparse.ArgumentParser) -> None:
    """Add an argument for each kind of change."""
    group = parser.add_argument_group("changes, applied in their order as one schema version")
    for name, (value, meaning, _) in CHANGES.items():
        group.add_argument(
            name, metavar=value, help=meaning, action=_Append, dest="changes", default=[]
        )
    group.add_argument(
        _DROP_KEY,
        help="remove the primary key of an empty table",
        action=_Append,
        dest="changes",
        nargs=0,
    )


def schema_changes(arguments: Sequence[tuple[str, Any]]) -> list[change.SchemaChange]:
    """Return the changes that a parser collected.

    Raises:
        UsageError: no change is given, or a change cannot be parsed.
    """
    if not arguments:
        raise UsageError("no change is given", fix=f"give one of {', '.join(CHANGES)}, {_DROP_KEY}")
    return [
        change.DropPrimaryKey() if name == _DROP_KEY else CHANGES[name][2](value)
        for name, value in arguments
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    add_table_and_dry_run(parser)
    add_schema_changes(parser)


def run(args: argparse.Namespace) -> int:
    """Alter the table.

    Raises:
        UsageError: a change is impossible, so none was made.
        UnsupportedTableError: stream_app cannot write the table.
    """
    changes = schema_changes(args.changes)
    table = open_table_argument(args.table)
    new_schema = next_schema(table, changes)
    # An ALTER may remove what prevents writing, except what matters for files and rows.
    options = {**new_schema.options, **lasting_refusals(table.schema.options)}
    require_alterable(replace(table, schema=replace(new_schema, options=options)))

    def result_lines() -> Iterator[str]:
        yield f"the table has schema {alter_table(table, changes).schema_id}"

    is_empty = new_schema.schema_id == table.schema.schema_id
    return run_upkeep(
        args, change.schema_differences(table.schema, new_schema), result_lines, is_empty=is_empty
    )
