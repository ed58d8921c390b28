"""Finds which tables of a database a connector sends, and why it does not send the others.

A first load calls it before it reads rows, because later changes of a table without a connector
would be lost.

Sources: PostgreSQL documentation, `pg_publication_tables` and `pg_replication_slots`; MySQL
documentation, `information_schema.processlist`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.app.source.jdbc_connection import query_rows
from stream_app.errors import WrongSourceError
from stream_app.model.source.origin import Origin
from stream_app.network.jdbc import POSTGRESQL, JdbcUrl

_SLOTS = """
    select slot_name, plugin from pg_replication_slots
    where slot_type = 'logical' and database = current_database()
    and confirmed_flush_lsn is not null"""
"""The query for the replication slots that send changes.

A slot without ``confirmed_flush_lsn`` still waits for older transactions, which it will not send.
"""
_FOLLOWERS = "select id, '' from information_schema.processlist where command like 'Binlog Dump%'"
_PGOUTPUT = "pgoutput"
"""The plugin that sends only published tables; other plugins send all tables."""
_POSTGRES_RELATIONS = """
    select n.nspname, c.relname, c.relkind = 'p', c.relispartition
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and c.relpersistence = 'p'
    and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')"""
"""The query for tables whose changes the log contains; so no views, foreign or unlogged tables."""
_MYSQL_RELATIONS = """
    select table_schema, table_name, false, false from information_schema.tables
    where table_type in ('BASE TABLE', 'SYSTEM VERSIONED')
    and table_schema not in ('mysql', 'sys', 'information_schema', 'performance_schema')"""
_PUBLISHED_TABLES_QUERY = "select schemaname, tablename from pg_publication_tables"
RelationName = tuple[str, str]
"""The schema (in MySQL the database) and the name of a table."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table of the source.

    Attributes:
        is_root: whether the table is partitioned, so that its rows are in its partitions.
        is_partition: whether the table is a partition of another one.
    """

    is_root: bool = False
    is_partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedDatabase:
    """The tables of a database that a connector follows.

    Attributes:
        relations: the tables whose changes the database's log contains.
        published_relations: the tables that connectors send; None means all, with partitions in
            place of their root.
    """

    relations: Mapping[RelationName, Relation]
    published_relations: frozenset[RelationName] | None = None

    def why_not_sent(self, name: RelationName) -> str:
        """Return why no connector sends changes of a table; empty if one may send them."""
        relation = self.relations.get(name)
        if relation is None:
            return "is not a table, and no log has changes of it"
        if self.published_relations is not None and name in self.published_relations:
            return ""
        if relation.is_root:
            return "is partitioned, and its changes name its partitions"
        return "" if self.published_relations is None else "is in no publication"


def followed_database(connection: Any, url: JdbcUrl) -> FollowedDatabase:
    """Read which tables of a database its connectors send.

    Raises:
        WrongSourceError: no connector follows the database.
    """
    is_postgres = url.driver is POSTGRESQL
    followers = query_rows(connection, _SLOTS if is_postgres else _FOLLOWERS)
    if not followers:
        problem = "has no logical replication slot" if is_postgres else "has no replica of its log"
        raise WrongSourceError(
            f"the database {problem}: changes after the load would be lost",
            where=str(url),
            fix="start Debezium's connector first, with snapshot.mode = no_data; the user needs "
            "the right to see it (MySQL and MariaDB: PROCESS)",
        )
    published_relations = None
    if is_postgres and all(plugin == _PGOUTPUT for _, plugin in followers):
        published_relations = frozenset(
            (str(schema), str(name))
            for schema, name in query_rows(connection, _PUBLISHED_TABLES_QUERY)
        )
    return FollowedDatabase(
        relations=read_relations(connection, url), published_relations=published_relations
    )


def read_relations(connection: Any, url: JdbcUrl) -> Mapping[RelationName, Relation]:
    """Read the tables whose changes the database's log contains.

    MySQL's log covers all databases.
    """
    query = _POSTGRES_RELATIONS if url.driver is POSTGRESQL else _MYSQL_RELATIONS
    return {
        (str(schema), str(name)): Relation(bool(is_root), bool(is_partition))
        for schema, name, is_root, is_partition in query_rows(connection, query)
    }


def relation_origin(url: JdbcUrl, schema: str, name: str) -> Origin:
    """Return a table's origin, as Debezium's messages name it."""
    if url.driver is POSTGRESQL:
        return Origin(url.database, schema, name)
    return Origin(schema, "", name)
