"""Finds the tables of a database whose changes a connector sends, and why it sends none of others.

A first load asks before it reads a row: what no connector sends later would be a gap.

Sources: PostgreSQL documentation, `pg_publication_tables` and `pg_replication_slots`; MySQL
documentation, `information_schema.processlist`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from stream_app.errors import WrongSourceError
from stream_app.jdbc import POSTGRESQL, JdbcUrl
from stream_app.model.source.origin import Origin

_SLOTS = """
    select slot_name, plugin from pg_replication_slots
    where slot_type = 'logical' and database = current_database()
    and confirmed_flush_lsn is not null"""
"""A slot without this position still waits for older transactions, and will not send them."""
_FOLLOWERS = "select id, '' from information_schema.processlist where command like 'Binlog Dump%'"
_PUBLICATIONS = "pgoutput"
"""The plugin that sends the tables of publications; others send all."""
_POSTGRES_RELATIONS = """
    select n.nspname, c.relname, c.relkind = 'p', c.relispartition
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and c.relpersistence = 'p'
    and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')"""
"""Tables of which the log has changes; views, foreign and unlogged tables are none."""
_MYSQL_RELATIONS = """
    select table_schema, table_name, false, false from information_schema.tables
    where table_type in ('BASE TABLE', 'SYSTEM VERSIONED')
    and table_schema not in ('mysql', 'sys', 'information_schema', 'performance_schema')"""
_PUBLISHED = "select schemaname, tablename from pg_publication_tables"
Place = tuple[str, str]
"""A table's schema, or its database in MySQL, and its name."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table of the source.

    Attributes:
        is_root: whether it is partitioned, so that its rows are those of its partitions.
        is_partition: whether it is such a partition.
    """

    is_root: bool = False
    is_partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedDatabase:
    """The tables of a database that connectors follow.

    Attributes:
        relations: the tables of which its log has changes.
        published: those that connectors send; None: all, partitions in place of their root.
    """

    relations: Mapping[Place, Relation]
    published: frozenset[Place] | None = None

    def why_not_sent(self, place: Place) -> str:
        """The reason why no connector sends changes of a table; empty if one may."""
        relation = self.relations.get(place)
        if relation is None:
            return "is not a table, and no log has changes of it"
        if self.published is not None and place in self.published:
            return ""
        if relation.is_root:
            return "is partitioned, and its changes name its partitions"
        return "" if self.published is None else "is in no publication"


def followed_database(connection: Any, url: JdbcUrl) -> FollowedDatabase:
    """Look at a database.

    Raises:
        WrongSourceError: no connector follows it.
    """
    is_postgres = url.driver is POSTGRESQL
    followers = asked(connection, _SLOTS if is_postgres else _FOLLOWERS)
    if not followers:
        missing = "has no logical replication slot" if is_postgres else "has no replica of its log"
        raise WrongSourceError(
            f"the database {missing}: changes since the load would be a gap",
            where=str(url),
            fix="start Debezium's connector first, with snapshot.mode = no_data; the user needs "
            "the right to see it (MySQL and MariaDB: PROCESS)",
        )
    published = None
    if is_postgres and all(plugin == _PUBLICATIONS for _, plugin in followers):
        published = frozenset(
            (str(schema), str(name)) for schema, name in asked(connection, _PUBLISHED)
        )
    return FollowedDatabase(relations=relations_of(connection, url), published=published)


def relations_of(connection: Any, url: JdbcUrl) -> Mapping[Place, Relation]:
    """The tables of a database whose changes are in its log; MySQL's are those of all databases."""
    query = _POSTGRES_RELATIONS if url.driver is POSTGRESQL else _MYSQL_RELATIONS
    return {
        (str(schema), str(name)): Relation(bool(is_root), bool(is_partition))
        for schema, name, is_root, is_partition in asked(connection, query)
    }


def origin_of(url: JdbcUrl, schema: str, name: str) -> Origin:
    """A table of a database as Debezium's messages name it; MySQL's schema is its database."""
    if url.driver is POSTGRESQL:
        return Origin(url.database, schema, name)
    return Origin(schema, "", name)


def asked(connection: Any, query: str) -> list[Any]:
    """The rows of a query."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())
