"""The creator of a SQLite catalog chooses the journal's mode, and processes may race."""

from __future__ import annotations

import multiprocessing
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from stream_app.network.jdbc import parse_jdbc_url

PROCESSES, FILES = 6, 8


def connect(path: Path) -> Any:
    url = parse_jdbc_url(f"jdbc:sqlite:{path}", "uri")
    return url.driver.open(url.driver.load(), url)


def kept_mode(path: Path) -> str:
    """Return the mode that a connection of another program finds."""
    with closing(sqlite3.connect(path)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        return str(mode)


def add_row(path: Path) -> None:
    with closing(connect(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS runs (number INT)")
        connection.execute("INSERT INTO runs VALUES (1)")


def test_a_file_that_we_create_has_a_write_ahead_log(tmp_path: Path) -> None:
    add_row(tmp_path / "new.db")
    assert kept_mode(tmp_path / "new.db") == "wal"


def test_a_file_of_others_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (number INT)")
    add_row(path)
    assert kept_mode(path) == "delete"


def test_processes_may_create_a_file_at_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.db" for number in range(FILES)]
    with multiprocessing.get_context("fork").Pool(PROCESSES) as pool:
        pool.map(add_row, [path for path in paths for _ in range(PROCESSES)], chunksize=1)
    for path in paths:
        with closing(connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM runs").fetchone() == (PROCESSES,)
