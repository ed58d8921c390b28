"""Connects to the database that a JDBC URL names, through its Python driver.

Python contains SQLite's driver. The extra `stream_app[jdbc]` installs those of PostgreSQL and
MySQL. MariaDB uses MySQL's driver.

Sources: the URL forms of the JDBC drivers of PostgreSQL, MySQL, MariaDB and SQLite.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from stream_app.errors import UsageError
from stream_app.version import install_command

_TIMEOUT_S = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcUrl:
    """The parts of a JDBC URL; its text shows no password.

    Attributes:
        database: PostgreSQL's database with the schemas, MySQL's with the tables, SQLite's file.
        answer_timeout_s: the seconds to wait for an answer of MySQL.
    """

    driver: Driver
    host: str = ""
    port: int = 0
    database: str
    user: str = ""
    password: str = field(default="", repr=False)
    answer_timeout_s: int = _TIMEOUT_S

    def __str__(self) -> str:
        authority = f"//{self.host}:{self.port}/" if self.host else ""
        return f"jdbc:{self.driver.name}:{authority}{self.database}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """The access to one kind of database.

    Attributes:
        name: the word after ``jdbc:``.
        module: the driver, a module of Python's database API.
        placeholder: the placeholder of a parameter in a statement.
        open: opens a connection, given the module; each statement is a transaction of its own.
    """

    name: str
    module: str
    placeholder: str
    open: Callable[[Any, JdbcUrl], Any]
    port: int = 0

    def load(self) -> Any:
        """Import the driver, and return its module.

        Raises:
            UsageError: the driver is not installed.
        """
        try:
            return importlib.import_module(self.module)
        except ImportError:
            raise UsageError(
                f"{self.name} needs {self.module}, which is not installed",
                fix=install_command("jdbc"),
            ) from None


def _postgresql(module: Any, url: JdbcUrl) -> Any:
    return module.connect(
        host=url.host, port=url.port, dbname=url.database, user=url.user or None,
        password=url.password or None, connect_timeout=_TIMEOUT_S, autocommit=True,
        tcp_user_timeout=_TIMEOUT_S * 1000,
    )  # fmt: skip


def _mysql(module: Any, url: JdbcUrl) -> Any:
    return module.connect(
        host=url.host, port=url.port, database=url.database, user=url.user or None,
        password=url.password or os.environ.get("MYSQL_PWD", ""), charset="utf8mb4",
        autocommit=True, connect_timeout=_TIMEOUT_S, read_timeout=url.answer_timeout_s,
        write_timeout=_TIMEOUT_S,
    )  # fmt: skip


def _sqlite(module: Any, url: JdbcUrl) -> Any:
    connection = module.connect(
        url.database, timeout=_TIMEOUT_S, check_same_thread=False, isolation_level=None
    )
    # Creating and deleting a journal file costs more than a change; WAL costs a quarter of that.
    # The mode belongs to the database file, so only the file's creator sets WAL. In a file of
    # another creator this connection keeps its journal file, which is as safe.
    if connection.execute("PRAGMA journal_mode").fetchone() == ("delete",):
        is_new = connection.execute("PRAGMA page_count").fetchone() == (0,)
        with suppress(module.OperationalError):  # another process is creating the file
            connection.execute(f"PRAGMA journal_mode = {'WAL' if is_new else 'PERSIST'}")
    return connection


POSTGRESQL = Driver(
    name="postgresql", module="psycopg", placeholder="%s", open=_postgresql, port=5432
)
MYSQL = Driver(name="mysql", module="pymysql", placeholder="%s", open=_mysql, port=3306)
MARIADB = Driver(name="mariadb", module="pymysql", placeholder="%s", open=_mysql, port=3306)
SQLITE = Driver(name="sqlite", module="sqlite3", placeholder="?", open=_sqlite)
SERVERS = (POSTGRESQL, MYSQL, MARIADB)
DRIVERS = (*SERVERS, SQLITE)


def parse_jdbc_url(
    text: str,
    key: str,
    drivers: tuple[Driver, ...] = DRIVERS,
    login: Mapping[str, str] | None = None,
) -> JdbcUrl:
    """Parse a JDBC URL.

    Args:
        key: the name of the option or argument that has the URL, for messages.
        drivers: the allowed drivers.
        login: ``user`` and ``password``, which win over those of the URL.

    Raises:
        UsageError: the URL names none of these databases.
    """
    driver = next((driver for driver in drivers if text.startswith(f"jdbc:{driver.name}:")), None)
    if driver is SQLITE:
        database = text.removeprefix("jdbc:sqlite:").removeprefix("file:").partition("?")[0]
        if database and not database.startswith(":"):
            return JdbcUrl(driver=SQLITE, database=database)
        driver = None
    parts = urlsplit(text.removeprefix("jdbc:"))
    database = unquote(parts.path.strip("/"))
    if driver is None or not parts.hostname or not database:
        prefixes_text = ", ".join(f"jdbc:{allowed_driver.name}:" for allowed_driver in drivers)
        raise UsageError(
            f"{key} {_without_password(text)} is not a URL of a database that can be read",
            fix="write it as jdbc:postgresql://127.0.0.1:5432/shop?user=me; known: "
            f"{prefixes_text}",
        )
    parameters = {**dict(parse_qsl(parts.query)), **(login or {})}
    return JdbcUrl(
        driver=driver,
        host=parts.hostname,
        port=parts.port or driver.port,
        database=database,
        user=parameters.get("user") or unquote(parts.username or ""),
        password=parameters.get("password") or unquote(parts.password or ""),
    )


def _without_password(text: str) -> str:
    return re.sub(r"(password=)[^&]*|(:)[^:/@]*(?=@)", r"\1\2…", text)
