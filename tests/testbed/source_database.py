"""A database of the workload in PostgreSQL or MariaDB, and its connector into Kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.support.judges.normal_rows import Row, normal_value
from tests.testbed.servers.connect import Connect
from tests.testbed.servers.mariadb import PASSWORD, MariaDb
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER, Postgres
from tests.testbed.source_tables import SourceColumn, SourceTable
from tests.testbed.value_kinds import STATES


class SourceDatabase(ABC):
    """The interface of a database for the workload and the comparison.

    Its connector's topics are ``<name>.<database or schema>.<table>``, and the table `done` there
    is not the workload's.
    """

    def __init__(self, name: str, connection: Any) -> None:
        self.name = name
        self._connection = connection
        self._connectors: list[str] = []
        self._marks = 0

    @abstractmethod
    def type_of(self, column: SourceColumn) -> str:
        """Its SQL type."""

    @abstractmethod
    def type_in_warehouse(self, column: SourceColumn) -> str:
        """Return the Paimon type that a column must have."""

    @abstractmethod
    def comment(self, table: SourceTable, column: SourceColumn, text: str) -> SourceColumn:
        """Comment a column; as it is in the messages from then on."""

    @abstractmethod
    def drop_not_null(self, table: SourceTable, column: SourceColumn) -> None:
        """Let a column be null."""

    @abstractmethod
    def parameter(self, column: SourceColumn, value: Any) -> Any:
        """A value that `Kind.make` has made, as its driver takes it."""

    @abstractmethod
    def widen(self, table: SourceTable, column: SourceColumn) -> None:
        """Give a column its larger type."""

    @abstractmethod
    def _connector(self, name: str) -> dict[str, str]:
        """The connector's settings."""

    @abstractmethod
    def _select(self, column: SourceColumn) -> str: ...

    @abstractmethod
    def _position(self) -> Any:
        """Return the end of the log of changes."""

    @abstractmethod
    def _reached(self, offset: Mapping[str, Any], position: Any) -> bool: ...

    @abstractmethod
    def _drop(self) -> None:
        """Drop the database, and close the connection."""

    def start_connector(
        self, connect: Connect, config: Mapping[str, str], connector: str = ""
    ) -> None:
        """Send all rows and then all changes; a second connector needs a name of its own."""
        name = connector or self.name
        self.know_connector(name)
        connect.add(name, {**self._connector(name), **config})

    def know_connector(self, name: str) -> None:
        """Wait for it, and end it, as for one that was started here."""
        self._connectors.append(name)

    def end_connector(self, connect: Connect, name: str) -> None:
        """End one of the connectors."""
        self._connectors.remove(name)
        connect.delete(name)

    def close(self, connect: Connect) -> None:
        """End the connectors, and drop the database."""
        for name in self._connectors:
            connect.delete(name)
        self._drop()

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql, parameters or None)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    @contextmanager
    def transaction(self, *, keep: bool = True) -> Iterator[None]:
        """Statements that come together, or not at all."""
        self.execute("begin")
        yield
        self.execute("commit" if keep else "rollback")

    def definition(self, column: SourceColumn) -> str:
        """Its type, and NOT NULL where it is."""
        return self.type_of(column) + (" not null" if column.is_required else "")

    def create(self, table: SourceTable) -> None:
        """Make an empty table."""
        parts = [f"{name} {sql}" for name, sql in table.key]
        parts += [f"{column.name} {self.definition(column)}" for column in table.columns]
        keys = ", ".join(table.key_names)
        self.execute(f"create table {table.name} ({', '.join(parts)}, primary key ({keys}))")

    def rows(self, table: SourceTable) -> list[Row]:
        """All rows of the table in the normal form."""
        names = [*table.key_names, *(column.name for column in table.columns)]
        normals = [normal_value] * len(table.key) + [column.kind.normal for column in table.columns]
        expressions = [*table.key_names, *map(self._select, table.columns)]
        return [
            {
                name: None if value is None else normal(value)
                for name, normal, value in zip(names, normals, values, strict=True)
            }
            for values in self.query(f"select {', '.join(expressions)} from {table.name}")
        ]

    def wait_until_sent(self, connect: Connect) -> None:
        """Wait until every change so far is in Kafka.

        Connect keeps the position up to which the broker has everything. It is that of a change, so
        two more are made: the position before them is passed with the second at the latest.
        """
        position = self._position()
        for _ in range(2):
            self._marks += 1
            self.execute(f"insert into done values ({self._marks})")

        for connector in self._connectors:

            def is_sent(connector: str = connector) -> bool:
                offset = connect.offset(connector)
                return offset is not None and self._reached(offset, position)

            connect.wait_until(is_sent, f"the changes of {self.name}", connector)


class PostgresDatabase(SourceDatabase):
    """A database with the schema `shop`."""

    def __init__(self, server: Postgres, name: str) -> None:
        self._server = server
        with server.connect() as connection:
            connection.execute(f"create database {name}")
        super().__init__(name, server.connect(name))
        self.execute("create schema shop")
        self.execute("set search_path to shop")
        states = ", ".join(f"'{state}'" for state in STATES)
        self.execute(f"create type state as enum ({states})")
        self.execute("create table done (id int primary key)")

    def type_of(self, column: SourceColumn) -> str:
        return column.kind.postgres

    def type_in_warehouse(self, column: SourceColumn) -> str:
        return column.kind.from_postgres

    def comment(self, table: SourceTable, column: SourceColumn, text: str) -> SourceColumn:
        """PostgreSQL's connector tells no comments."""
        self.execute(f"comment on column {table.name}.{column.name} is '{text}'")
        return column

    def drop_not_null(self, table: SourceTable, column: SourceColumn) -> None:
        self.execute(f"alter table {table.name} alter column {column.name} drop not null")

    def parameter(self, column: SourceColumn, value: Any) -> Any:
        return column.kind.for_postgres(value)

    def widen(self, table: SourceTable, column: SourceColumn) -> None:
        kind = self.type_of(column)
        self.execute(f"alter table {table.name} alter column {column.name} type {kind}")

    def create(self, table: SourceTable) -> None:
        super().create(table)
        if any(column.kind_name == "long text" for column in table.columns):
            # Else an update does not say what the old values are that it leaves as they were.
            self.execute(f"alter table {table.name} replica identity full")

    def _connector(self, name: str) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(self._server.port),
            "database.user": USER,
            "database.password": "",
            "database.dbname": self.name,
            "slot.name": name,
            "publication.name": name,
        }

    def _drop(self) -> None:
        self._connection.close()
        slots = "pg_replication_slots where database = %s"
        with self._server.connect() as connection:
            connection.execute(
                f"select pg_terminate_backend(active_pid) from {slots} and active", [self.name]
            )
            connection.execute(
                f"select pg_drop_replication_slot(slot_name) from {slots}", [self.name]
            )
            connection.execute(f"drop database {self.name} with (force)")

    def _select(self, column: SourceColumn) -> str:
        return column.kind.postgres_select.format(column.name)

    def _position(self) -> int:
        [(lsn,)] = self.query("select (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
        return int(lsn)

    def _reached(self, offset: Mapping[str, Any], position: Any) -> bool:
        return int(offset["lsn"]) > position


class MariaDbDatabase(SourceDatabase):
    """A database of that name."""

    def __init__(self, server: MariaDb, name: str, bootstrap: str) -> None:
        self._server, self._bootstrap = server, bootstrap
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute(f"create database {name}")
        connection.select_db(name)
        super().__init__(name, connection)
        self.execute("create table done (id int primary key)")

    def type_of(self, column: SourceColumn) -> str:
        return column.kind.mariadb

    def type_in_warehouse(self, column: SourceColumn) -> str:
        return column.kind.from_mariadb or column.kind.from_postgres

    def definition(self, column: SourceColumn) -> str:
        """Return the whole definition, because MODIFY drops what it does not repeat."""
        definition = super().definition(column)
        return f"{definition} comment '{column.comment}'" if column.comment else definition

    def comment(self, table: SourceTable, column: SourceColumn, text: str) -> SourceColumn:
        commented_column = replace(column, comment=text)
        self.widen(table, commented_column)
        return commented_column

    def drop_not_null(self, table: SourceTable, column: SourceColumn) -> None:
        self.widen(table, replace(column, is_required=False))

    def parameter(self, column: SourceColumn, value: Any) -> Any:
        return value

    def widen(self, table: SourceTable, column: SourceColumn) -> None:
        self.execute(f"alter table {table.name} modify {column.name} {self.definition(column)}")

    def _connector(self, name: str) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "127.0.0.1",
            "database.port": str(self._server.port),
            "database.user": MARIADB_USER,
            "database.password": PASSWORD,
            "database.server.id": str(100 + len(self._connectors)),
            "database.include.list": self.name,
            "include.schema.comments": "true",
            "bigint.unsigned.handling.mode": "precise",
            "schema.history.internal.kafka.topic": f"{name}-history",
            "schema.history.internal.kafka.bootstrap.servers": self._bootstrap,
        }

    def _drop(self) -> None:
        self.execute(f"drop database {self.name}")
        self._connection.close()

    def _select(self, column: SourceColumn) -> str:
        return column.kind.mariadb_select.format(column.name)

    def _position(self) -> tuple[str, int]:
        [(file, position, *_)] = self.query("show binlog status")
        return file, int(position)

    def _reached(self, offset: Mapping[str, Any], position: Any) -> bool:
        return (offset["file"], int(offset["pos"])) > position


def all_rows(database: SourceDatabase, tables: Iterable[SourceTable]) -> dict[str, list[Row]]:
    """The rows of every table by its name."""
    return {table.name: database.rows(table) for table in tables}
