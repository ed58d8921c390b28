"""Measures what a catalog adds to a commit: a table at a path, and tables in catalogs, in turns.

    python -m bench.commit.catalogs [--commits N] [--epochs N]

few       commits of `bench.commit.commits`: real manifests and snapshots, made-up data files
250,000   epochs of `bench.commit.iceberg`: sort, merge, write, commit and compact a keyed table

One process, one core. The servers of the catalogs are other processes, whose time does not count.
A round commits one epoch to each table, so that other work on the machine slows all alike. Catalogs
with locks use them. Goal: ≤ 1.2.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from bench.commit import iceberg
from bench.commit.commits import CommitLoad, CountedFileIO, costs, new_table
from stream_app.catalog.catalog_registry import open_catalog
from stream_app.catalog.identifier import Identifier
from stream_app.clock import SystemClock
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open_in_catalog
from tests.support.servers.rest_server import RestServer
from tests.testbed.servers.hive_metastore import HiveMetastore
from tests.testbed.servers.mariadb import PASSWORD, MariaDb
from tests.testbed.servers.mariadb import USER as MARIADB_USER
from tests.testbed.servers.postgres import USER, Postgres

COMMITS, EPOCHS = 300, 12
PATH = "a path"
Options = Mapping[str, str]


def catalogs(folder: Path, stack: ExitStack) -> dict[str, Options]:
    """Return the options of a catalog of each kind. Their servers run until the stack closes."""
    postgresql = stack.enter_context(closing(Postgres()))
    mariadb = stack.enter_context(closing(MariaDb()))
    mariadb.connect().query("create database catalog character set latin1")
    metastore = stack.enter_context(closing(HiveMetastore("3.1.3")))
    rest = stack.enter_context(closing(RestServer()))
    login = f"user={MARIADB_USER}&password={PASSWORD}"
    uris = {
        "jdbc, SQLite": f"jdbc:sqlite:{folder}/catalog.db",
        "jdbc, PostgreSQL": f"jdbc:postgresql://127.0.0.1:{postgresql.port}/postgres?user={USER}",
        "jdbc, MariaDB": f"jdbc:mysql://127.0.0.1:{mariadb.port}/catalog?{login}",
    }
    lock_option = {"lock.enabled": "true"}
    jdbc: dict[str, Options] = {
        name: {"metastore": "jdbc", "uri": uri, "warehouse": f"{folder}/{number}", **lock_option}
        for number, (name, uri) in enumerate(uris.items())
    }
    return {
        "filesystem": {"metastore": "filesystem", "warehouse": f"{folder}/files"},
        **jdbc,
        "hive": {**metastore.catalog_options(folder / "hive"), **lock_option},
        "rest": rest.warehouse(folder / "rest").options,
    }


def tables(
    plain: FileStoreTable, catalog_options: Mapping[str, Options], name: str
) -> dict[str, FileStoreTable]:
    """Return a table at a path, and a table with the same schema in each catalog, by label."""
    tables_by_label = {PATH: plain}
    for label, options in catalog_options.items():
        catalog = open_catalog(options, SystemClock())
        identifier = Identifier("bench", name)
        tables_by_label[label] = create_or_open_in_catalog(
            catalog, identifier, plain.schema, SystemClock()
        )
    return tables_by_label


def few(
    tables_by_label: Mapping[str, FileStoreTable], commits: int
) -> dict[str, Callable[[], float]]:
    """Return for each table a function that makes one commit, and returns its processor seconds."""

    def step_of(table: FileStoreTable) -> Callable[[], float]:
        counted_table = replace(table, file_io=CountedFileIO())
        load = CommitLoad(counted_table, compacts=True, rng=random.Random(1))
        commit_costs = costs(counted_table, load, commits)
        return lambda: next(commit_costs).processor_seconds

    return {name: step_of(table) for name, table in tables_by_label.items()}


def lines(folder: Path, commits: int = COMMITS, epochs: int = EPOCHS) -> Iterator[str]:
    """A table for docs/performance/committing.md."""
    pa.set_cpu_count(1)
    with ExitStack() as stack:
        catalog_options = catalogs(folder, stack)
        plain = iceberg.new_table(folder, "keyed", {})
        rows = iceberg.ROWS
        epoch_steps = {
            name: iceberg.Epochs(table, rows).step
            for name, table in tables(plain, catalog_options, "whole").items()
        }
        commit_steps = few(tables(new_table(folder, {}), catalog_options, "few"), commits)
        medians = [_medians(commit_steps, commits), _medians(epoch_steps, epochs)]
    yield f"| catalog | few files, ms | of a path's | {rows:,} changes, ms | of a path's |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name in medians[0]:
        cells = (f"{costs[name]:,.2f} | {costs[name] / costs[PATH]:.2f} ×" for costs in medians)
        yield f"| {name} | {' | '.join(cells)} |"


def _medians(steps: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Return the median processor milliseconds of steps that take turns."""
    times_ms: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            times_ms[name].append(1000 * step())
    return {name: statistics.median(times) for name, times in times_ms.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commit.catalogs")
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.commits, args.epochs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
