"""Twelve tables of a shop, as the workload begins with them in each database."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.testbed.value_kinds import KINDS, Kind

Key = tuple[Any, ...]
_NEW = "new_"


@dataclass(frozen=True)
class SourceColumn:
    """A column beside the key.

    Attributes:
        is_required: whether it is NOT NULL.
        comment: what the source tells of it; not every connector tells comments.
    """

    name: str
    kind_name: str
    is_required: bool = False
    comment: str | None = None

    @property
    def kind(self) -> Kind:
        return KINDS[self.kind_name]


@dataclass
class SourceTable:
    """A table as the workload knows it: its columns of the moment, and its keys by number.

    Attributes:
        key: name and SQL type of each part; `key_of` makes their values of a row's number.
        used_count: how many numbers have been given to rows; each is given once.
    """

    name: str
    key: tuple[tuple[str, str], ...]
    columns: list[SourceColumn]
    key_of: Callable[[int], Key] = lambda number: (number,)
    used_count: int = 0
    _added_count: int = field(default=0, repr=False)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.key)

    def new_name(self) -> str:
        """Return a name for a column that no version of the table has had."""
        self._added_count += 1
        return f"{_NEW}{self._added_count}"

    def is_new(self, name: str) -> bool:
        """Return whether an ALTER has added or renamed a column."""
        return name.startswith(_NEW)


_ID = (("id", "int not null"),)
_BIG_ID = (("id", "bigint not null"),)
_COLUMNS: dict[str, tuple[tuple[tuple[str, str], ...], str, Callable[[int], Key]]] = {
    "customers": (
        _BIG_ID,
        "name varchar(40) not null; vip bool; balance decimal(10, 2); born date; seen zoned",
        lambda number: (2**53 + number,),
    ),
    "orders": (
        _ID,
        "customer int64 not null; state state; total decimal(10, 2) not null; placed timestamp(6);"
        " note text",
        lambda number: (number,),
    ),
    "order_lines": (
        (("order_id", "int not null"), ("line", "smallint not null")),
        "sku char(8) not null; quantity int16; price decimal(18, 4)",
        lambda number: (number // 5, number % 5),
    ),
    "products": (
        (("sku", "varchar(20) not null"),),
        "title varchar(40); weight float; height double; attributes jsonb",
        lambda number: (f"Ä-{number:06}",),
    ),
    "documents": (
        _ID,
        "title varchar(40) not null; body long text; more long text; packed bytes",
        lambda number: (number,),
    ),
    "events": (
        _BIG_ID,
        "kind int8 not null; at timestamp(3) not null; day date; clock time; payload json",
        lambda number: (-number,),
    ),
    "measurements": (
        _ID,
        "f float; d double; n decimal(38, 10); s int16; b int64; u uint32; m uint24",
        lambda number: (number,),
    ),
    "accounts": (
        (("id", "char(36) not null"),),
        "owner uuid not null; balance decimal(14, 2); opened date",
        lambda number: (str(uuid.UUID(int=number)),),
    ),
    "sessions": (_ID, "address address; agent text; begun zoned", lambda number: (number,)),
    "inventory": (
        (("store", "int not null"), ("sku", "varchar(20) not null"), ("bin", "smallint not null")),
        "quantity int32 not null; counted timestamp(6)",
        lambda number: (number % 3, f"s{number}", number % 7),
    ),
    "flags": (_ID, "a bool; b bool; bits bits; level int8; state state", lambda number: (number,)),
    "prices": (
        (("day", "date not null"), ("id", "int not null")),
        "low decimal(10, 2); high decimal(10, 2); source varchar(40)",
        lambda number: (f"2026-01-{number % 28 + 1:02}", number),
    ),
}


def source_tables() -> list[SourceTable]:
    """All twelve, without rows."""
    return [
        SourceTable(
            name,
            key,
            [_column(part) for part in text.split(";")] + [SourceColumn("touched", "int32")],
            key_of,
        )
        for name, (key, text, key_of) in _COLUMNS.items()
    ]


def _column(text: str) -> SourceColumn:
    name, kind = text.strip().removesuffix(" not null").split(" ", 1)
    return SourceColumn(name, kind, is_required=text.endswith(" not null"))
