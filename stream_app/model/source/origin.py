"""The origin of rows: a table of the source, by database, schema and table."""

from __future__ import annotations

import re
from dataclasses import dataclass

_GHOST = re.compile(r"_+(.+?)(?:_\d{14})?_(?:gho|ghc|del|new|old)")
"""Names of gh-ost (``gho``, ``ghc``, ``del``) and of pt-online-schema-change (``new``, ``old``)."""


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A table of the source. PostgreSQL names a schema, MySQL none.

    Attributes:
        database, schema: empty where the messages lack them.
    """

    database: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(filter(None, (self.database, self.schema, self.table)))


def ghost_of(name: str) -> str:
    """The table whose helper in an online schema change has this name; empty: it is no such name.

    Such a tool fills a copy of the table, and swaps both by a RENAME TABLE. All rows of the copy
    are in the table too, or come into it by the swap.
    """
    match = _GHOST.fullmatch(name)
    return match[1] if match else ""
