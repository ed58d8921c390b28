"""The changes that make a schema out of another.

Source: Paimon `schema/SchemaChange.java`, without those of nested columns.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from stream_app.model.schema.data_type import DataType


class ColumnPlace(enum.Enum):
    """Where a column goes."""

    FIRST = "first"
    LAST = "last"
    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Position:
    """A place among the columns; `of` is the neighbour of BEFORE and AFTER."""

    place: ColumnPlace
    of: str = ""


@dataclass(frozen=True, slots=True)
class SetOption:
    """Set an option of the table."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class UnsetOption:
    """Take an option back to its default."""

    key: str


@dataclass(frozen=True, slots=True)
class SetTableComment:
    """Comment the table; None: no comment."""

    comment: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """Add a column, which is null in all rows so far."""

    name: str
    data_type: DataType
    comment: str | None = None
    position: Position | None = None


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column; its values stay."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column; a later one of the same name does not get its values."""

    name: str


@dataclass(frozen=True, slots=True)
class ChangeType:
    """Give a column another type, with its nullability as it is."""

    name: str
    data_type: DataType


@dataclass(frozen=True, slots=True)
class ChangeNullability:
    """Let a column be null, or forbid it."""

    name: str
    nullable: bool


@dataclass(frozen=True, slots=True)
class SetColumnComment:
    """Comment a column; None: no comment."""

    name: str
    comment: str | None


@dataclass(frozen=True, slots=True)
class SetColumnDefault:
    """Give a column a default value, as text; None: no default."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Move a column among the others."""

    name: str
    position: Position


@dataclass(frozen=True, slots=True)
class DropPrimaryKey:
    """Make an empty table one without a key."""


SchemaChange = (
    SetOption
    | UnsetOption
    | SetTableComment
    | AddColumn
    | RenameColumn
    | DropColumn
    | ChangeType
    | ChangeNullability
    | SetColumnComment
    | SetColumnDefault
    | MoveColumn
    | DropPrimaryKey
)
