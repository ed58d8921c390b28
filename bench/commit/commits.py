"""Measures what a commit costs, and whether the cost grows, by thousands of commits without data.

    python -m bench.commit.commits [--commits N] [--load NAME] [--set KEY=VALUE …]

The job's own `FileStoreCommit` makes real snapshots with real manifests; the data files in the
manifests are made up. Each commit adds a file to each bucket of the newest day, and to a bucket of
some older day. With compactions, five files of a bucket become one.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stream_app.clock import SystemClock
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.format.binary_row import serialize_row
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.data_file_meta import DataFileMeta, FileSource, SimpleStats
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import create_or_open
from stream_app.table.versions.file_store_scan import FileStoreScan

COMMITS = 10_000
BUCKETS = 4
COMMITS_A_DAY = 200
FILES_TO_COMPACT = 5
COLUMNS = parse_columns("dt STRING NOT NULL, k BIGINT NOT NULL, a BIGINT, b STRING, c DOUBLE")
DAY, VALUES = COLUMNS.types[:1], COLUMNS.types


@dataclass(frozen=True)
class CountedFileIO(LocalFileIO):
    """A file system that counts manifests and manifest lists, and their bytes.

    Attributes:
        read, written: the sizes of files since the lists were last cleared.
    """

    read: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)

    def read_bytes(self, path: str) -> bytes:
        data = LocalFileIO.read_bytes(self, path)
        if "/manifest/" in path:
            self.read.append(len(data))
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        LocalFileIO.write_bytes(self, path, data)
        self.written.append(len(data))


@dataclass(frozen=True, slots=True)
class CommitCost:
    """The cost of one epoch's snapshots: time, processor time, and sizes of files."""

    seconds: float
    processor_seconds: float
    read: tuple[int, ...]
    written: tuple[int, ...]


@dataclass
class CommitLoad:
    """A source of epochs of made-up files.

    Attributes:
        compacts: whether every five files of level 0 are compacted.
    """

    table: FileStoreTable
    compacts: bool
    rng: random.Random
    _number: int = 0
    _buckets: dict[tuple[bytes, int], list[DataFileMeta]] = field(default_factory=dict)

    def epoch(self, epoch: int) -> tuple[ManifestCommittable, ManifestCommittable]:
        """Return an epoch's files, and the compactions that they make due."""
        today = epoch // COMMITS_A_DAY
        buckets = [(today, bucket) for bucket in range(BUCKETS)]
        buckets.append((self.rng.randint(0, today), self.rng.randrange(BUCKETS)))
        appends, compactions = [], []
        for day, bucket in dict.fromkeys(buckets):
            key = serialize_row([f"day {day:05}"], DAY), bucket
            file = self._file(0)
            files = self._buckets.setdefault(key, [])
            files.append(file)
            appends.append(BucketChange(partition=key[0], bucket=bucket, added_files=(file,)))
            if self.compacts and sum(file.level == 0 for file in files) >= FILES_TO_COMPACT:
                output_file = self._file(5)
                compactions.append(
                    BucketChange(
                        partition=key[0],
                        bucket=bucket,
                        removed_files=tuple(files),
                        added_files=(output_file,),
                    )
                )
                self._buckets[key] = [output_file]
        return (
            ManifestCommittable(identifier=epoch, changes=tuple(appends)),
            ManifestCommittable(identifier=epoch, changes=tuple(compactions)),
        )

    def live(self) -> int:
        """Return the number of the table's live files."""
        return sum(map(len, self._buckets.values()))

    def _file(self, level: int) -> DataFileMeta:
        self._number += 1
        min_key, max_key = sorted(self.rng.randrange(10**12) for _ in range(2))
        return made_file(self._number, level, (min_key, max_key), self.rng)


def made_file(number: int, level: int, keys: tuple[int, int], rng: random.Random) -> DataFileMeta:
    """Return the metadata of a made-up file with the columns `COLUMNS`.

    Args:
        number: the sequence number of its rows; later files have larger numbers.
        keys: the smallest and the largest key.
    """
    min_key, max_key = keys
    ends = [serialize_row([key], COLUMNS.types[1:2]) for key in keys]
    texts = [f"{rng.getrandbits(64):016x}" for _ in range(2)]
    min_values, max_values = (
        serialize_row(["day", key, key // 3, text, key / 7], VALUES)
        for key, text in zip((min_key, max_key), sorted(texts), strict=True)
    )
    return DataFileMeta(
        file_name=f"data-{rng.getrandbits(128):032x}-{number}.parquet",
        file_size=rng.randrange(10**5, 10**8),
        row_count=rng.randrange(10**6),
        min_key=ends[0],
        max_key=ends[1],
        key_stats=SimpleStats(min_values=ends[0], max_values=ends[1], null_counts=(0,)),
        value_stats=SimpleStats(
            min_values=min_values, max_values=max_values, null_counts=(0, 0, 5, 7, 9)
        ),
        min_sequence_number=number,
        max_sequence_number=number,
        schema_id=0,
        level=level,
        creation_time_ms=1_767_225_600_000 + number,
        delete_row_count=0,
        file_source=FileSource.COMPACT if level else FileSource.APPEND,
    )


def new_table(folder: Path, options: Mapping[str, str]) -> FileStoreTable:
    """Return an empty table with a partition for each day, in a folder of its own."""
    schema = new_table_schema(
        columns=COLUMNS,
        primary_keys=("dt", "k"),
        partition_keys=("dt",),
        options={"bucket": str(BUCKETS), **options},
        time_ms=1_767_225_600_000,
    )
    location = tempfile.mkdtemp(prefix="commits-", dir=folder)
    table = create_or_open(f"{location}/bench.db/t", schema, SystemClock())
    return FileStoreTable(table.location, table.schema, CountedFileIO(), table.clock)


def costs(
    table: FileStoreTable, load: CommitLoad, commits: int, *, first: int = 0
) -> Iterator[CommitCost]:
    """Commit epochs from the first one on, and yield the cost of each."""
    io = table.file_io
    assert isinstance(io, CountedFileIO)
    commit = FileStoreCommit(table, CommitHistory(table, "bench", table.snapshots.latest()))
    for epoch in range(first, first + commits):
        appends, compactions = load.epoch(epoch)
        io.read.clear()
        io.written.clear()
        start_s, processor_start_s = time.perf_counter(), time.process_time()
        commit.commit_appends(appends)
        outcome = commit.commit_compactions(compactions)
        processor_s = time.process_time() - processor_start_s
        seconds = time.perf_counter() - start_s
        assert outcome.conflict is None, outcome.conflict
        yield CommitCost(seconds, processor_s, tuple(io.read), tuple(io.written))


LOADS = {"only new files": False, "with compactions": True}


def lines(
    folder: Path, commits: int, options: Mapping[str, str], loads: Sequence[str] = tuple(LOADS)
) -> Iterator[str]:
    """Yield a table for docs/performance/committing.md: a line for each tenth of the commits."""
    yield (
        "| load | commits | live files | manifests | read, KB | written, KB | most written, KB "
        "| processor: median, ms | longest, ms | clock: median, ms |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    for name in loads:
        table = new_table(folder, options)
        load = CommitLoad(table, LOADS[name], random.Random(1))
        tenth: list[CommitCost] = []
        for number, cost in enumerate(costs(table, load, commits), 1):
            tenth.append(cost)
            if len(tenth) < commits // 10:
                continue
            latest = table.snapshots.latest()
            assert latest is not None
            written_kb = [sum(commit.written) / 1000 for commit in tenth]
            processor_ms = [1000 * commit.processor_seconds for commit in tenth]
            yield (
                f"| {name} | {number:,} | {load.live():,} "
                f"| {len(FileStoreScan(table).manifests(latest))} "
                f"| {statistics.mean(sum(commit.read) for commit in tenth) / 1000:.0f} "
                f"| {statistics.mean(written_kb):.0f} | {max(written_kb):.0f} "
                f"| {statistics.median(processor_ms):.1f} | {max(processor_ms):.0f} "
                f"| {statistics.median(1000 * commit.seconds for commit in tenth):.1f} |"
            )
            tenth = []


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commit.commits")
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--load", choices=LOADS, action="append")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    options = dict(text.split("=", 1) for text in args.set)
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.commits, options, args.load or tuple(LOADS)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
