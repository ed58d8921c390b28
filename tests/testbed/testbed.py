"""Two databases, and a Kafka Connect that sends their changes: one of each for a test session.

tests/conftest.py imports the fixture `testbed`; do not import it elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from tests.testbed.servers.archives import why_no_databases
from tests.testbed.servers.connect import Connect
from tests.testbed.servers.mariadb import MariaDb
from tests.testbed.servers.postgres import USER, Postgres
from tests.testbed.source_database import MariaDbDatabase, PostgresDatabase


@dataclass(frozen=True, kw_only=True)
class Testbed:
    """Running servers; a test takes databases of its own."""

    __test__ = False  # pytest looks for tests in whatever is called so

    broker: EmbeddedBroker
    postgres: Postgres
    mariadb: MariaDb
    connect: Connect

    @contextmanager
    def postgres_database(self, name: str) -> Iterator[PostgresDatabase]:
        """A new database, which is dropped at the end."""
        database = PostgresDatabase(self.postgres, name)
        try:
            yield database
        finally:
            database.close(self.connect)

    @contextmanager
    def mariadb_database(self, name: str) -> Iterator[MariaDbDatabase]:
        """A new database, which is dropped at the end."""
        database = MariaDbDatabase(self.mariadb, name, self.broker.bootstrap)
        try:
            yield database
        finally:
            database.close(self.connect)


def addresses(testbed: Testbed, database: str = USER) -> dict[str, str]:
    """The variables by which the tutorial and PostgreSQL's clients find the servers."""
    return {
        "PGHOST": "127.0.0.1",
        "PGPORT": str(testbed.postgres.port),
        "PGUSER": USER,
        "PGDATABASE": database,
        "KAFKA": testbed.broker.bootstrap,
        "CONNECT": testbed.connect.url,
    }


@contextmanager
def running_testbed(broker: EmbeddedBroker) -> Iterator[Testbed]:
    """Start all, in about five seconds, and end it."""
    with ExitStack() as stack:
        postgres = Postgres()
        stack.callback(postgres.close)
        mariadb = MariaDb()
        stack.callback(mariadb.close)
        connect = Connect(broker.bootstrap)
        stack.callback(connect.close)
        yield Testbed(broker=broker, postgres=postgres, mariadb=mariadb, connect=connect)


@pytest.fixture(scope="session")
def testbed(kafka_broker: EmbeddedBroker) -> Iterator[Testbed]:
    """The testbed, or a skipped test that says why it cannot run here."""
    if reason := why_no_databases():
        pytest.skip(reason)
    with running_testbed(kafka_broker) as running:
        yield running
