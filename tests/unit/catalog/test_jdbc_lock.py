"""A lock in a JDBC catalog has one holder; others wait, and break locks of dead processes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stream_app.catalog.identifier import Identifier
from stream_app.catalog.jdbc.connection_pool import ConnectionPool
from stream_app.catalog.jdbc.jdbc_lock import JdbcLock
from stream_app.errors import CommitError
from stream_app.network.jdbc import parse_jdbc_url
from tests.support.tables.small_table import StandingClock

ORDERS, RUNS = Identifier("shop", "orders"), Identifier("lab", "runs")


@pytest.fixture
def pool(tmp_path: Path) -> ConnectionPool:
    return ConnectionPool(parse_jdbc_url(f"jdbc:sqlite:{tmp_path}/c.db", "uri"), 1)


def lock_of(pool: ConnectionPool, clock: StandingClock, timeout_s: int = 60) -> JdbcLock:
    lock = JdbcLock(
        connection_pool=pool,
        catalog_key="lake",
        clock=clock,
        max_sleep_ms=8000,
        timeout_ms=timeout_s * 1000,
    )
    lock.create_table(255)
    return lock


def locks_of(pool: ConnectionPool) -> list[str]:
    return [name for (name,) in pool.rows("SELECT lock_id FROM paimon_distributed_locks")]


def test_a_lock_excludes_others_of_its_table_alone(pool: ConnectionPool) -> None:
    clock = StandingClock()
    lock = lock_of(pool, clock)
    began = clock.millis
    with lock_of(pool, clock, timeout_s=600).hold(ORDERS):
        assert locks_of(pool) == ["lake.shop.orders"]
        with lock.hold(RUNS):
            pass
        error = pytest.raises(CommitError, match="another writer has held the table's lock")
        with error, lock.hold(ORDERS):
            pass
    assert 60_000 < clock.millis - began < 60_000 + 2 * 8000  # the waits end soon after the limit
    assert locks_of(pool) == []


def test_a_lock_is_free_after_an_error(pool: ConnectionPool) -> None:
    lock = lock_of(pool, StandingClock())
    with pytest.raises(ZeroDivisionError), lock.hold(ORDERS):
        raise ZeroDivisionError
    assert locks_of(pool) == []


def test_a_holder_that_took_too_long_leaves_its_successors_lock(
    pool: ConnectionPool,
) -> None:
    clock = StandingClock()
    lock = lock_of(pool, clock)
    with lock.hold(ORDERS):
        clock.sleep(61)
        pool.change("UPDATE paimon_distributed_locks SET expire_time_seconds = 999")
    assert locks_of(pool) == ["lake.shop.orders"]


def test_a_dead_process_loses_its_lock(pool: ConnectionPool) -> None:
    """The database's clock tells the age, and its row how long the holder may live."""
    clock = StandingClock()
    lock = lock_of(pool, clock)
    insert = "INSERT INTO paimon_distributed_locks VALUES (?, datetime('now', ?), 60)"
    pool.change(insert, ("lake.shop.orders", "-59 seconds"))
    with pytest.raises(CommitError), lock.hold(ORDERS):
        pass
    pool.change("DELETE FROM paimon_distributed_locks")
    pool.change(insert, ("lake.shop.orders", "-62 seconds"))
    with lock.hold(ORDERS):
        assert locks_of(pool) == ["lake.shop.orders"]


def test_connections_are_made_anew_elsewhere(pool: ConnectionPool) -> None:
    lock_of(pool, StandingClock())
    copied_pool = pickle.loads(pickle.dumps(pool))
    assert copied_pool.rows("SELECT 1") == [(1,)]
    # A connection that the database has closed meanwhile is not an error.
    pool._idle_connections[0].close()
    assert pool.rows("SELECT 1") == [(1,)]
    pool._idle_connections[0].close()
    assert pool.change("INSERT INTO paimon_distributed_locks VALUES ('x', 0, 0)") == 1
