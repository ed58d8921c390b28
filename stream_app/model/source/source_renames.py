"""Records which columns the source's DDL statements have renamed. Pure.

A statement arrives in a separate topic, or beside the rows. A job may read it long before the first
row with the new name, and stores it until then. `column_renames` decides how the table reacts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from stream_app.model.source.ddl_statements import (
    AlterTable,
    CreateOrDropTable,
    RenameTable,
    Renaming,
    Statement,
    TableName,
)
from stream_app.model.source.origin import Origin, ghost_of, origin_of
from stream_app.model.source.topic_name import in_cluster


class RenameReaction(enum.Enum):
    """The reaction of a table to a column that its source has renamed."""

    FOLLOW = "follow"
    NEW_COLUMN = "new-column"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTableRenames:
    """The renamed columns of one source table.

    Attributes:
        pairs: the renames in order.
        present: names that statements have given to columns, and that are still in use.
        unclear: renames whose names other columns got in the same statement, such as a swap.
        since_ms: the time at which the newest of these was read.
        is_partial: whether a swap created the table, and some of its statements were not read.
    """

    pairs: tuple[Renaming, ...] = ()
    present: tuple[str, ...] = ()
    unclear: tuple[Renaming, ...] = ()
    since_ms: int = 0
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class SourceDatabase:
    """A database of the source, and the cluster whose topic has its statements."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return in_cluster(self.cluster, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRenames:
    """The renames of all statements so far.

    Attributes:
        databases: the databases whose statements were read.
        offsets: ``TOPIC/PARTITION`` → the offset up to which statements were read.
    """

    tables: Mapping[Origin, SourceTableRenames] = field(default_factory=dict)
    databases: tuple[str, ...] = ()
    offsets: Mapping[str, int] = field(default_factory=dict)

    def of(self, origins: Sequence[Origin]) -> list[SourceTableRenames]:
        """Return the renames of some source tables."""
        return [self.tables[origin] for origin in origins if origin in self.tables]

    def after(
        self, database: SourceDatabase, statements: Sequence[Statement], now_ms: int
    ) -> SourceRenames:
        """Return the renames after further statements in a database."""
        tables = dict(self.tables)
        for statement in statements:
            match statement:
                case AlterTable():
                    _alter(tables, database, statement, now_ms)
                case RenameTable(pairs):
                    _rename(tables, database, pairs)
                case CreateOrDropTable(names):
                    for name in names:
                        if ghost_of(name.table):
                            tables[_origin(name, database)] = SourceTableRenames()
        if not database.name:
            return replace(self, tables=tables)
        return replace(
            self, tables=tables, databases=tuple(dict.fromkeys((*self.databases, str(database))))
        )

    def read_up_to(self, topic: str, partition_number: int, offset: int) -> SourceRenames | None:
        """Return the renames after a message was read; None if it was already read before."""
        offset_key = f"{topic}/{partition_number}"
        if offset < self.offsets.get(offset_key, 0):
            return None
        return replace(self, offsets={**self.offsets, offset_key: offset + 1})

    def document(self) -> dict[str, Any]:
        """Return the renames as JSON."""
        return {
            "databases": self.databases,
            "offsets": self.offsets,
            "tables": [
                {**origin.document(), **asdict(renames)}
                for origin, renames in sorted(self.tables.items())
            ],
        }


def source_renames(document: Mapping[str, Any]) -> SourceRenames:
    """Parse the renames from the result of `SourceRenames.document`."""
    return SourceRenames(
        databases=tuple(document["databases"]),
        offsets=dict(document["offsets"]),
        tables={
            origin_of(table): SourceTableRenames(
                pairs=tuple(Renaming(*pair) for pair in table["pairs"]),
                present=tuple(table["present"]),
                unclear=tuple(Renaming(*pair) for pair in table["unclear"]),
                since_ms=int(table["since_ms"]),
                is_partial=bool(table["is_partial"]),
            )
            for table in document["tables"]
        },
    )


NO_RENAMES = SourceRenames()


_Tables = dict[Origin, SourceTableRenames]


def _alter(tables: _Tables, database: SourceDatabase, statement: AlterTable, now_ms: int) -> None:
    """Add one ALTER TABLE statement; a rename that reuses one of its names stays unclear."""
    origin = _origin(statement.table, database)
    renames = tables.get(origin, SourceTableRenames())
    old_names = {*(pair.old_name for pair in statement.renames), *statement.dropped_columns}
    new_names = [*(pair.new_name for pair in statement.renames), *statement.added_columns]
    if old_names or new_names:
        present_names = (name for name in renames.present if name not in old_names)
        unclear_pairs = tuple(
            pair
            for pair in statement.renames
            if pair.new_name in old_names
            or pair.old_name in {other.new_name for other in statement.renames}
        )
        clear_pairs = tuple(pair for pair in statement.renames if pair not in unclear_pairs)
        tables[origin] = replace(
            renames,
            pairs=renames.pairs + clear_pairs,
            present=tuple(dict.fromkeys((*present_names, *new_names))),
            unclear=renames.unclear + unclear_pairs,
            since_ms=now_ms if unclear_pairs else renames.since_ms,
        )
    if statement.new_name is not None:
        _rename(tables, database, ((statement.table, statement.new_name),))


def _rename(
    tables: _Tables, database: SourceDatabase, pairs: Sequence[tuple[TableName, TableName]]
) -> None:
    """Rename tables; a ghost table that replaces its original inherits the original's renames."""
    tables_before = dict(tables)
    for old_name, new_name in pairs:
        old_origin, new_origin = _origin(old_name, database), _origin(new_name, database)
        moved_renames = tables.pop(old_origin, None)
        if ghost_of(old_origin.table) == new_origin.table:
            table_renames = tables_before.get(new_origin, SourceTableRenames())
            ghost_renames = moved_renames
            tables[new_origin] = (
                replace(table_renames, is_partial=True)
                if ghost_renames is None
                else _join_renames(table_renames, ghost_renames)
            )
        elif moved_renames is not None:
            tables[new_origin] = moved_renames


def _join_renames(
    table_renames: SourceTableRenames, ghost_renames: SourceTableRenames
) -> SourceTableRenames:
    old_names = {pair.old_name for pair in ghost_renames.pairs}
    present_names = (name for name in table_renames.present if name not in old_names)
    return SourceTableRenames(
        pairs=table_renames.pairs + ghost_renames.pairs,
        present=tuple(dict.fromkeys((*present_names, *ghost_renames.present))),
        unclear=table_renames.unclear + ghost_renames.unclear,
        since_ms=max(table_renames.since_ms, ghost_renames.since_ms),
        is_partial=table_renames.is_partial or ghost_renames.is_partial,
    )


def _origin(name: TableName, database: SourceDatabase) -> Origin:
    return Origin(name.database or database.name, "", name.table, database.cluster)
