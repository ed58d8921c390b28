"""Measures what metadata for Iceberg's readers costs, beside the same work without metadata.

    python -m bench.commit.iceberg [--rows N] [--epochs N]

epochs    sort, merge, write and commit an epoch of changes, and the compactions that are due; also
          with each version in an Iceberg REST catalog, whose server's time does not count
commits   of made-up files, in a table of 2,000 live files and 300 snapshots; each replaces four

One process, one core; work with and without metadata takes turns. The times are the processor's.
Decoding is left out, so a job's ratio is lower. About a minute. Goal of an epoch: ≤ 1.15.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.commit.commits import BUCKETS, DAY, made_file
from bench.commit.commits import new_table as new_made_up_table
from bench.compact.compaction import random_rows
from stream_app.format.binary_row import serialize_row
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.stream_table_commit import StreamTableCommit
from stream_app.table.kinds.table_kind_registry import bucket_writer
from stream_app.table.opening import create_or_open
from tests.support.files.flushed_files import flushed_files
from tests.support.tables.small_table import CompactHere
from tests.testbed.servers.iceberg_rest import IcebergRest

ROWS, EPOCHS = 250_000, 12
SNAPSHOTS, FILES, COMMITS = 300, 2_000, 40
ICEBERG = {"metadata.iceberg.storage": "table-location"}
_COLUMNS = "k0 BIGINT, v0 STRING, v1 INT, v2 DOUBLE, v3 STRING, v4 BIGINT, v5 INT, v6 DOUBLE"
_VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}
_TABLES: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "append": ((), {"bucket": "-1"}),
    "keyed, deletion vectors": (("k0",), {"bucket": "1", **_VECTORS}),
    "keyed": (("k0",), {"bucket": "1", "full-compaction.delta-commits": "4"}),
}
_ALONE = serialize_row([], ())


@dataclass(slots=True)
class Epochs:
    """A writer of one table's epochs."""

    table: FileStoreTable
    rows: int
    _rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(17))
    _commit: StreamTableCommit = field(init=False)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self._commit = StreamTableCommit(self.table, "bench", CompactHere(self.table))

    def step(self) -> float:
        """Write an epoch with its compactions, and return the processor seconds."""
        batch = random_rows(self._rng, self.table, self.rows, 4 * self.rows)
        start_s = time.process_time()
        next_sequence_number = self._commit.follow_and_wait()
        writer = bucket_writer(self.table, _ALONE, 0, next_sequence_number=next_sequence_number)
        writer.write(batch)
        change = flushed_files(writer, _ALONE, 0)
        self._commit.commit_epoch(self._epoch, [change], basis=self._commit.bucket_state.basis)
        self._commit.compact_due()
        self._epoch += 1
        return time.process_time() - start_s


@dataclass(slots=True)
class Replacements:
    """A table of made-up files, whose commits replace one file in each of four buckets."""

    table: FileStoreTable
    _rng: random.Random = field(default_factory=lambda: random.Random(1))
    _files: dict[tuple[bytes, int], DataFileMeta] = field(default_factory=dict)
    _commit: FileStoreCommit = field(init=False)
    _epoch: int = 0

    def __post_init__(self) -> None:
        self._commit = FileStoreCommit(self.table, CommitHistory(self.table, "bench", None))
        for number in range(FILES // BUCKETS):
            day = serialize_row([f"day {number:05}"], DAY)
            self._replace([(day, bucket) for bucket in range(BUCKETS)])
        for _ in range(SNAPSHOTS):
            self.step()

    def step(self) -> float:
        """Commit, and return the processor seconds."""
        buckets = self._rng.sample(list(self._files), 4)
        start_s = time.process_time()
        self._replace(buckets)
        return time.process_time() - start_s

    def _replace(self, buckets: list[tuple[bytes, int]]) -> None:
        changes = []
        for bucket in buckets:
            file = made_file(self._epoch, 5, (0, 10**12), self._rng)
            replaced_files = (self._files[bucket],) if bucket in self._files else ()
            changes.append(
                BucketChange(
                    partition=bucket[0],
                    bucket=bucket[1],
                    removed_files=replaced_files,
                    added_files=(file,),
                )
            )
            self._files[bucket] = file
        committable = ManifestCommittable(identifier=self._epoch, changes=tuple(changes))
        outcome = self._commit.commit_compactions(committable)
        assert outcome.conflict is None, outcome.conflict
        self._epoch += 1


def new_table(folder: Path, name: str, added_options: Mapping[str, str]) -> FileStoreTable:
    """Return an empty table of a kind of `_TABLES`, in a folder of its own."""
    keys, options = _TABLES[name]
    schema = new_table_schema(
        columns=parse_columns(_COLUMNS),
        primary_keys=keys,
        partition_keys=(),
        options={**options, **added_options},
        time_ms=1,
    )
    location = tempfile.mkdtemp(prefix="iceberg-", dir=folder)
    return create_or_open(f"{location}/bench.db/t", schema)


def _compared(
    name: str, plain: Callable[[], float], iceberg: Callable[[], float], rounds: int
) -> str:
    """Return a line with the mean times, which include work that is due only now and then.

    The first step of each, which loads libraries and registers the table, does not count.
    """
    times: dict[Callable[[], float], list[float]] = {plain: [], iceberg: []}
    for step in times:
        step()
    for turn in range(rounds):
        for step in (plain, iceberg) if turn % 2 else (iceberg, plain):
            times[step].append(1000 * step())
    plain_ms, iceberg_ms = map(statistics.mean, times.values())
    return f"| {name} | {plain_ms:,.1f} | {iceberg_ms:,.1f} | {iceberg_ms / plain_ms:.2f} |"


def lines(folder: Path, rows: int = ROWS, epochs: int = EPOCHS) -> Iterator[str]:
    pa.set_cpu_count(1)
    yield "| work | processor without, ms | with, ms | ratio |"
    yield "| --- | ---: | ---: | ---: |"
    for name in _TABLES:
        steps = [
            Epochs(new_table(folder, name, added_options), rows).step
            for added_options in ({}, ICEBERG)
        ]
        yield _compared(f"epoch, {name}", steps[0], steps[1], epochs)
    with closing(IcebergRest()) as server:
        for number, name in enumerate(_TABLES):
            rest_options = {
                "metadata.iceberg.storage": "rest-catalog",
                "metadata.iceberg.rest.uri": server.uri,
                "metadata.iceberg.table": f"t{number}",
            }
            steps = [
                Epochs(new_table(folder, name, added_options), rows).step
                for added_options in ({}, rest_options)
            ]
            yield _compared(f"epoch, {name}, REST catalog", steps[0], steps[1], epochs)
    options = {"num-levels": "6"}
    loads = [
        Replacements(new_made_up_table(folder, {**options, **added_options}))
        for added_options in ({}, ICEBERG)
    ]
    yield _compared(
        f"commit, {FILES:,} files, {SNAPSHOTS} snapshots", loads[0].step, loads[1].step, COMMITS
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commit.iceberg")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.rows, args.epochs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
