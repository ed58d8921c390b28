"""What a catalog adds to a commit: epochs of a table at a path and of tables in catalogs, in turns.

    python -m bench.catalogs [--commits N]

The commits are those of `bench.commits`: real manifests and snapshots, made-up data files. The
databases of the catalogs are processes of the tests' own. A round commits one epoch to each table,
so that what the machine does else falls on all alike.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from bench.commits import CommitCost, CommitLoad, CountedFileIO, costs, new_table
from stream_app.catalog.identifier import Identifier
from stream_app.catalog.registry import catalog_of
from stream_app.clock import SystemClock
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open_in_catalog
from tests.testbed.postgres import USER, Postgres

COMMITS = 300


def tables(folder: Path, postgresql: Postgres) -> dict[str, FileStoreTable]:
    """A table at a path, and one in each catalog, with locks."""
    path = new_table(folder, {})
    found = {"a path": path}
    uris = {
        "jdbc, SQLite": f"jdbc:sqlite:{folder}/catalog.db",
        "jdbc, PostgreSQL": f"jdbc:postgresql://127.0.0.1:{postgresql.port}/postgres?user={USER}",
    }
    for number, (name, uri) in enumerate(uris.items()):
        options = {
            "metastore": "jdbc", "uri": uri, "warehouse": f"{folder}/w{number}",
            "lock.enabled": "true",
        }  # fmt: skip
        catalog = catalog_of(options, SystemClock())
        table = create_or_open_in_catalog(
            catalog, Identifier("bench", "t"), path.schema, SystemClock()
        )
        found[name] = replace(table, file_io=CountedFileIO())
    return found


def lines(commits: int) -> Iterator[str]:
    """A table for docs/performance.md."""
    spent: Mapping[str, list[CommitCost]]
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="stream_app-bench-"))
        postgresql = stack.enter_context(closing(Postgres()))
        made = tables(Path(folder), postgresql)
        runs = {
            name: costs(table, CommitLoad(table, compacts=True, rng=random.Random(1)), commits)
            for name, table in made.items()
        }
        spent = {name: [] for name in runs}
        for _ in range(commits):
            for name, run in runs.items():
                spent[name].append(next(run))
    yield "| catalog | processor: median, ms | of a path's | clock: median, ms |"
    yield "| --- | ---: | ---: | ---: |"
    work = {
        name: statistics.median(1000 * cost.processor_seconds for cost in part)
        for name, part in spent.items()
    }
    for name, part in spent.items():
        clock = statistics.median(1000 * cost.seconds for cost in part)
        yield f"| {name} | {work[name]:.2f} | {work[name] / work['a path']:.2f} × | {clock:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.catalogs")
    parser.add_argument("--commits", type=int, default=COMMITS)
    for line in lines(parser.parse_args().commits):
        print(line, flush=True)


if __name__ == "__main__":
    main()
