"""What a catalog adds to a commit: epochs of a table at a path and of tables in catalogs, in turns.

    python -m bench.commit.catalogs [--commits N] [--epochs N]

few       commits of `bench.commit.commits`: real manifests and snapshots, made-up data files
250,000   epochs of `bench.commit.iceberg`: sort, merge, write, commit and compact a keyed table

One process, one core. The servers of the catalogs are processes of the tests' own, whose time does
not count. A round commits one epoch to each table, so that what the machine does else falls on all
alike. Catalogs with locks take them. Goal: ≤ 1.2.
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
from stream_app.catalog.catalog_registry import catalog_of
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
    """The options of a catalog of each kind; their servers run until the stack closes."""
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
    locked = {"lock.enabled": "true"}
    jdbc: dict[str, Options] = {
        name: {"metastore": "jdbc", "uri": uri, "warehouse": f"{folder}/{number}", **locked}
        for number, (name, uri) in enumerate(uris.items())
    }
    return {
        "filesystem": {"metastore": "filesystem", "warehouse": f"{folder}/files"},
        **jdbc,
        "hive": {**metastore.catalog_options(folder / "hive"), **locked},
        "rest": rest.warehouse(folder / "rest").options,
    }


def tables(
    plain: FileStoreTable, catalog_options: Mapping[str, Options], name: str
) -> dict[str, FileStoreTable]:
    """A table at a path, and tables like it in each catalog."""
    tables_by_label = {PATH: plain}
    for label, options in catalog_options.items():
        catalog = catalog_of(options, SystemClock())
        identifier = Identifier("bench", name)
        tables_by_label[label] = create_or_open_in_catalog(
            catalog, identifier, plain.schema, SystemClock()
        )
    return tables_by_label


def few(
    tables_by_label: Mapping[str, FileStoreTable], commits: int
) -> dict[str, Callable[[], float]]:
    """Commits of a few files: seconds of the processor for each."""

    def step_of(table: FileStoreTable) -> Callable[[], float]:
        counted = replace(table, file_io=CountedFileIO())
        load = CommitLoad(counted, compacts=True, rng=random.Random(1))
        run = costs(counted, load, commits)
        return lambda: next(run).processor_seconds

    return {name: step_of(table) for name, table in tables_by_label.items()}


def lines(folder: Path, commits: int = COMMITS, epochs: int = EPOCHS) -> Iterator[str]:
    """A table for docs/performance/committing.md."""
    pa.set_cpu_count(1)
    with ExitStack() as stack:
        catalog_options = catalogs(folder, stack)
        plain = iceberg.new_table(folder, "keyed", {})
        rows = iceberg.ROWS
        whole = {
            name: iceberg.Epochs(table, rows).step
            for name, table in tables(plain, catalog_options, "whole").items()
        }
        steps = few(tables(new_table(folder, {}), catalog_options, "few"), commits)
        work = [_medians(steps, commits), _medians(whole, epochs)]
    yield f"| catalog | few files, ms | of a path's | {rows:,} changes, ms | of a path's |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for name in work[0]:
        cells = (f"{costs[name]:,.2f} | {costs[name] / costs[PATH]:.2f} ×" for costs in work)
        yield f"| {name} | {' | '.join(cells)} |"


def _medians(steps: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of the processor's milliseconds, of steps in turns."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            spent[name].append(1000 * step())
    return {name: statistics.median(part) for name, part in spent.items()}


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
