"""Decides which source tables a job ingests, and the names of their tables.

Callers ask once for each source table, when it appears. Patterns match whole names, as in Java's
`Matcher.matches`.

Source: Paimon `flink/action/cdc/TableNameConverter.java`,
`flink/sink/cdc/RichCdcMultiplexRecordEventParser.java`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.model.source.origin import Origin, ghost_of
from stream_app.planning.sync.table_share import TableShare

_ANY_NAME = ".*"
_FORBIDDEN_IN_FOLDERS = re.compile(r"[/\\$.\s\x00-\x1f\x7f]")
_NAME_BYTES_MAX = 250
_RENAME = "name it by sync.table-mapping"


@dataclass(frozen=True, kw_only=True)
class SyncRules:
    """The rules that select and name tables; names and meanings are Paimon's.

    Attributes:
        including_tables, excluding_tables: regular expressions for whole names of source tables.
        including_dbs, excluding_dbs: the same for their databases; an unknown database passes.
        table_prefix, table_suffix: the prefix and suffix of each table's name, unless another rule
            applies.
        table_prefix_db, table_suffix_db: the same by the source's database, ignoring case.
        table_mapping: source table, ignoring case → name of the table. The key is the name alone,
            as in Paimon, or qualified by database and schema, which has precedence.
        merge_shards: whether tables of one name in several databases or clusters become one table.
            Else each name has its database as prefix, and before that a further cluster's name.
        case_sensitive: whether names keep their case; else names of the source and the mapping
            become lower case.
        share: the job's own share of all tables; None: the job ingests all tables.
    """

    including_tables: str = _ANY_NAME
    excluding_tables: str | None = None
    including_dbs: str = _ANY_NAME
    excluding_dbs: str | None = None
    table_prefix: str = ""
    table_suffix: str = ""
    table_prefix_db: Mapping[str, str] = field(default_factory=dict)
    table_suffix_db: Mapping[str, str] = field(default_factory=dict)
    table_mapping: Mapping[str, str] = field(default_factory=dict)
    merge_shards: bool = True
    case_sensitive: bool = True
    share: TableShare | None = None

    @property
    def may_collide(self) -> bool:
        """Whether two unrelated source tables may get the same name."""
        return not (self.merge_shards and self.case_sensitive)

    def accepts(self, origin: Origin) -> bool:
        """Return whether the job ingests a source table; exclusion precedes inclusion."""
        database = origin.database
        return (
            not database or _matches(database, self.including_dbs, self.excluding_dbs)
        ) and _matches(origin.table, self.including_tables, self.excluding_tables)

    def name_of(self, origin: Origin) -> str:
        """Return the table's name by the mapping, else the database's, else the general affixes."""
        own_name = self._own_name(origin)
        for known_name in (str(origin), own_name):
            if (
                mapped_name := by_lower_case(self.table_mapping).get(known_name.lower())
            ) is not None:
                return self._in_its_case(mapped_name)
        database = origin.database.lower()
        prefix = by_lower_case(self.table_prefix_db).get(database, self.table_prefix)
        suffix = by_lower_case(self.table_suffix_db).get(database, self.table_suffix)
        return f"{prefix}{self._in_its_case(own_name)}{suffix}"

    def hides(self, origin: Origin) -> bool:
        """Return whether a MySQL table is a ghost table that `table_mapping` does not name."""
        if not origin.database or origin.schema or not ghost_of(origin.table):
            return False
        own_name = self._own_name(origin)
        mapped_tables = by_lower_case(self.table_mapping)
        return mapped_tables.keys().isdisjoint({str(origin).lower(), own_name.lower()})

    def _own_name(self, origin: Origin) -> str:
        if self.merge_shards:
            return origin.table
        name = f"{origin.database}_{origin.table}"
        return f"{origin.cluster}_{name}" if origin.cluster else name

    def _in_its_case(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The decision that a table gets the rows of a source table."""

    name: str


@dataclass(frozen=True, slots=True)
class LeftOutTable:
    """The decision that the job does not ingest a source table."""


@dataclass(frozen=True, slots=True)
class GhostTable:
    """The decision that the job ignores a helper table of an online schema change."""


@dataclass(frozen=True, slots=True)
class RefusedTable:
    """The decision that the job should ingest a source table, but cannot."""

    reason: str
    fix: str


Decision = TargetTable | LeftOutTable | GhostTable | RefusedTable
LEFT_OUT = LeftOutTable()


def decide_target(rules: SyncRules, origin: Origin, targets: Mapping[Origin, str]) -> Decision:
    """Decide into which table a source table goes, or why it is not ingested.

    Args:
        targets: source table that the job already has → the name of its table.
    """
    names_table = bool(origin.database) or rules.merge_shards
    name = rules.name_of(origin) if names_table else origin.table
    if not rules.accepts(origin) or not (rules.share is None or rules.share.accepts(name)):
        return LEFT_OUT
    if origin not in targets and rules.hides(origin):
        return GhostTable()
    if not names_table:
        return RefusedTable(
            f"the messages of {origin} do not name their database, by which merge-shards = false "
            "names the table",
            "let the messages name it (flattened ones by add.fields = op,db,schema,table), or set "
            "sync.merge-shards = true",
        )
    if problem := name_problem(name):
        return RefusedTable(f"{origin} would become the table {name[:80]!r}: {problem}", _RENAME)
    other_origins = [other for other, table in targets.items() if table == name and other != origin]
    if other_origins and not rules.merge_shards:
        return RefusedTable(
            f"{origin} would become the table {name}, as {min(other_origins)} does",
            f"{_RENAME}, or set sync.merge-shards = true if both are shards of one table",
        )
    twin_origins = [
        other for other in other_origins if _lower_case_key(other) == _lower_case_key(origin)
    ]
    if twin_origins and not rules.case_sensitive:
        return RefusedTable(
            f"{origin} would become the table {name}, as {min(twin_origins)} does, which differs "
            "in its case alone",
            f"{_RENAME}, or set sync.case-sensitive = true",
        )
    return TargetTable(name)


def _lower_case_key(origin: Origin) -> tuple[str, str, str, str]:
    return *origin.namespace, origin.table.lower()


def _matches(name: str, including: str, excluding: str | None) -> bool:
    if re.fullmatch(including, name) is None:
        return False
    return excluding is None or re.fullmatch(excluding, name) is None


def name_problem(name: str) -> str:
    """Return the reason why no folder can have this name; empty if a folder can."""
    if not name:
        return "it is empty"
    if match := _FORBIDDEN_IN_FOLDERS.search(name):
        return f"it holds {match[0]!r}"
    if not name.isprintable():  # such as marks that reverse the direction of a log line
        return "it holds characters that cannot be printed"
    size = len(name.encode())
    return f"it has {size} bytes, {_NAME_BYTES_MAX} at most fit" if size > _NAME_BYTES_MAX else ""


def by_lower_case(names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values by their keys in lower case."""
    return {key.lower(): value for key, value in names.items()}
