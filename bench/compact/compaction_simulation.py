"""Simulates thousands of flushes into one bucket, to measure the cost and the effect of compaction.

    python -m bench.compact.compaction_simulation [--flushes N] [--set KEY=VALUE …]

The job's own `BucketCoordinator` decides by a table's real options, and its real `CompactTask` runs
on real metadata, but there are no data files. Sizes come from a model of the keys, and time is
simulated: epochs come at a fixed pace, a compaction reads its input at a given rate, and epochs
wait as in the job.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

from bench.compact.compaction_outcome import HEAD, Outcome
from bench.compact.loads import LOADS, MB, Load
from bench.goal import Goal
from stream_app.clock import Clock
from stream_app.format.binary_row import key_order, serialize_row
from stream_app.mergetree.compact.compact_task import CompactTask
from stream_app.mergetree.compact.universal_compaction import UniversalCompaction
from stream_app.mergetree.file_access import WrittenFiles
from stream_app.mergetree.interval_partition import Section
from stream_app.model.bucket_id import BucketId
from stream_app.model.files.bucket_change import BucketChange
from stream_app.model.files.compact_request import CompactRequest
from stream_app.model.files.data_file_meta import EMPTY_STATS, DataFileMeta
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.compact.compaction_policy import BucketSizes, FixedRules, choose_rules
from stream_app.table.compact.auto_policy import PolicyBounds
from stream_app.table.compact.compaction_report import FinishedCompaction
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.kinds.table_kind_registry import table_kind_of
from stream_app.table.opening import create_or_open

KEYS = 10**12
"""The number of keys, from 0; a file with unordered keys covers all."""
BUCKET = BucketId(serialize_row((), ()), 0)
WARM_UP = 100
"""The number of flushes before space counts, because the first files are the whole table."""
TRIGGERS = (3, 5, 10)
FLUSHES = 10_000
LONGER = 11
"""The factor by which a freshness of one minute makes epochs longer than the usual 5 s."""
LEVELS: tuple[Mapping[str, object], ...] = ({}, {"num-levels": 11}, {"num-levels": 18})
FRESHNESS = 20  # the default of compaction-freshness


@dataclass
class SimulatedClock(Clock):
    """The table's clock, which starts at a local midnight."""

    seconds: float = field(default_factory=lambda: datetime(2026, 1, 5).astimezone().timestamp())

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def steady_seconds(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class SizeModel:
    """A stand-in for the rewriter, which makes metadata of files of the right sizes."""

    load: Load
    target_size: int
    written: dict[str, float] = field(default_factory=dict)
    """File name → the bytes of changes that were merged into the file."""

    def flushed(self, number: int) -> DataFileMeta:
        first, last = (number * 1000, number * 1000 + 999) if self.load.in_order else (0, KEYS - 1)
        size = self.load.merged_size(self.load.flush_size)
        return self._file(0, size, self.load.flush_size, (first, last), (number, number))

    def rewrite(
        self, sections: Sequence[Section], *, output_level: int, drops_deletes: bool
    ) -> WrittenFiles:
        del drops_deletes  # the model has none
        input_files = tuple(file for section in sections for run in section for file in run.files)
        key_ranges = [(key_in(file.min_key), key_in(file.max_key)) for file in input_files]
        first = min(min_key for min_key, _ in key_ranges)
        last = max(max_key for _, max_key in key_ranges)
        written = sum(self.written[file.file_name] for file in input_files)
        sequence_numbers = [file.max_sequence_number for file in input_files]
        share = 1.0 if self.load.in_order else (last - first + 1) / KEYS
        size = self.load.merged_size(written, share)
        output_files = []
        for start in range(0, size, self.target_size):
            end = min(size, start + self.target_size)
            keys = [first + (last - first + 1) * position // size for position in (start, end)]
            file_share = (end - start) / size
            output_files.append(
                self._file(
                    output_level,
                    end - start,
                    written * file_share,
                    (keys[0], max(keys[0], keys[1] - 1)),
                    (min(sequence_numbers), max(sequence_numbers)),
                )
            )
        return WrittenFiles(tuple(output_files))

    def upgrade(self, file: DataFileMeta, output_level: int) -> WrittenFiles:
        return WrittenFiles((file.at_level(output_level),))

    def _file(
        self,
        level: int,
        size: int,
        written: float,
        keys: tuple[int, int],
        sequence: tuple[int, int],
    ) -> DataFileMeta:
        name = f"data-{len(self.written)}.parquet"
        self.written[name] = written
        return DataFileMeta(
            file_name=name,
            file_size=size,
            row_count=1,
            min_key=_row_of(keys[0]),
            max_key=_row_of(keys[1]),
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=sequence[0],
            max_sequence_number=sequence[1],
            schema_id=0,
            level=level,
            delete_row_count=0,
        )


_KEY_TYPES = parse_columns("k BIGINT NOT NULL").types


@cache
def _row_of(key: int) -> bytes:
    return serialize_row((key,), _KEY_TYPES)


def key_in(row: bytes) -> int:
    """Return the only value of a BinaryRow, a BIGINT."""
    return key_order(_KEY_TYPES)(row)[0]


@dataclass
class SimulatedExecutor:
    """An executor of compactions that end at a time of the simulated clock."""

    table: FileStoreTable
    model: SizeModel
    clock: SimulatedClock
    running: list[tuple[float, BucketChange, Future[BucketChange]]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    bytes_written: int = 0

    def submit(self, request: CompactRequest) -> Future[BucketChange]:
        task = CompactTask(
            request=request,
            rewriter=self.model,  # type: ignore[arg-type]
            key_of=self.table.key_of,
            file_size_min=self.table.schema.compaction_file_size,
        )
        result = task.run()
        kept_names = {file.file_name for file in result.added_files}
        input_size = sum(
            file.file_size for file in result.removed_files if file.file_name not in kept_names
        )
        self.reasons[request.unit.reason] += 1
        self.bytes_written += sum(file.file_size for file in result.written_files)
        future: Future[BucketChange] = Future()
        end_s = self.clock.seconds + input_size / self.model.load.compaction_rate
        self.running.append((end_s, result, future))
        return future

    def advance(self, seconds: float) -> None:
        """Advance the clock to this time, and end the compactions that are due."""
        self.clock.seconds = max(self.clock.seconds, seconds)
        for end_s, result, future in self.running:
            if end_s <= self.clock.seconds:
                future.set_result(result)
        self.running = [compaction for compaction in self.running if not compaction[2].done()]

    def wait(self) -> None:
        """Advance the clock to the end of the compaction that ends first."""
        self.advance(min(end_s for end_s, _, _ in self.running))


def simulate(
    load: Load,
    options: Mapping[str, object],
    flushes: int,
    *,
    start_hour: int = 0,
    freshness: int | None = None,
) -> Outcome:
    """Flush into one bucket of a table with these options, and return the outcome.

    Args:
        freshness: the number of sorted runs within which the job chooses its rules, or None to use
            the options.

    Raises:
        UsageError: an option is wrong.
    """
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        bucket = simulated_bucket(Path(folder), load, options, start_hour=start_hour)
        if freshness is not None:
            bucket.coordinator.adapt(PolicyBounds(freshness))
        for _ in range(flushes):
            bucket.flush()
        return bucket.outcome()


def simulated_bucket(
    folder: Path, load: Load, options: Mapping[str, object], *, start_hour: int = 0
) -> Simulation:
    """Return a simulated bucket of a new table in `folder`, which gets no data."""
    clock = SimulatedClock()
    clock.sleep(start_hour * 3600)
    schema = new_table_schema(
        columns=parse_columns("k BIGINT NOT NULL, v STRING"),
        primary_keys=("k",),
        partition_keys=(),
        options={"bucket": "1", **{key: str(value).lower() for key, value in options.items()}},
        time_ms=1,
    )
    return Simulation(create_or_open(f"{folder}/bench.db/t", schema, clock), load, clock)


class Simulation:
    """One simulated run, with the steps of `table.job.stream_table_commit`."""

    def __init__(self, table: FileStoreTable, load: Load, clock: SimulatedClock) -> None:
        self.load = load
        self.model = SizeModel(load, table.schema.target_file_size)
        self.executor = SimulatedExecutor(table, self.model, clock)
        self.coordinator = table_kind_of(table.schema).make_coordinator(table, self.executor)
        self.coordinator.load([BUCKET], None)
        self.live: dict[str, DataFileMeta] = {}
        self.started = clock.seconds
        self.flushed = 0
        self.waits: list[float] = []
        self.runs: list[int] = []
        self.space: list[float] = []

    def flush(self) -> None:
        """Run one epoch: wait if necessary, commit a file and ended compactions, begin due ones."""
        number = len(self.waits)
        self.executor.advance(self.started + number * self.load.interval_s)
        self.waits.append(self._back_pressure())
        file = self.model.flushed(number)
        self.flushed += file.file_size
        finished_compactions = self.coordinator.collect_finished_compactions()
        self.coordinator.add_new_files(
            [BucketChange(partition=BUCKET.partition, bucket=BUCKET.bucket, added_files=(file,))]
        )
        self.live[file.file_name] = file
        self.runs.append(self.coordinator.back_pressure.sorted_run_counts()[BUCKET])
        merged_size = self.load.merged_size((number + 1) * self.load.flush_size)
        self.space.append(sum(live.file_size for live in self.live.values()) / merged_size)
        self._apply(finished_compactions)
        self.coordinator.trigger()

    def outcome(self) -> Outcome:
        """Return the cost of the flushes so far."""
        space = self.space[WARM_UP:] or self.space
        return Outcome(
            flushes=len(self.waits),
            write_amplification=1 + self.executor.bytes_written / self.flushed,
            space_max=max(space),
            space_mean=sum(space) / len(space),
            runs_max=max(self.runs),
            runs_mean=sum(self.runs) / len(self.runs),
            compactions=self.executor.reasons.total(),
            delayed_count=sum(1 for wait in self.waits if wait),
            waited_s_max=max(self.waits),
            files=len(self.live),
            reasons=dict(self.executor.reasons),
        )

    def _back_pressure(self) -> float:
        """Wait as an epoch does, and return the seconds."""
        start_s = self.executor.clock.seconds
        while self.coordinator.back_pressure.buckets_over_stop_trigger():
            self.coordinator.trigger()
            if self.coordinator.is_idle():
                break
            if not self.coordinator.collect_finished_compactions():
                self.executor.wait()
            self._apply(self.coordinator.collect_finished_compactions())
            self.coordinator.trigger()
        return self.executor.clock.seconds - start_s

    def _apply(self, compactions: Sequence[FinishedCompaction]) -> None:
        self.coordinator.apply(compactions)
        for compaction in compactions:
            for file in compaction.change.removed_files:
                del self.live[file.file_name]
            self.live.update({file.file_name: file for file in compaction.change.added_files})


def lines(flushes: int, options: Mapping[str, object]) -> Iterator[str]:
    """Yield a line for each load with each trigger, and with chosen rules."""
    yield from HEAD
    for load in LOADS.values():
        for trigger in TRIGGERS:
            settings = {"num-sorted-run.compaction-trigger": trigger, **options}
            text = ", ".join(f"`{key}` = {value}" for key, value in settings.items())
            yield simulate(load, settings, flushes).markdown(load.name, text)
        for level_options in LEVELS:
            levels = "".join(f", `{key}` = {value}" for key, value in level_options.items())
            outcome = simulate(load, {**level_options, **options}, flushes, freshness=FRESHNESS)
            yield outcome.markdown(load.name, f"`compaction-policy` = auto{levels}")
        longer_load = load.with_longer_epochs(LONGER)
        outcome = simulate(longer_load, options, flushes // LONGER, freshness=FRESHNESS)
        yield outcome.markdown(load.name, f"`compaction-policy` = auto, epochs {LONGER} × as long")
    yield from decision_lines()


def goals(flushes: int) -> Iterator[Goal]:
    """Yield for each load the bytes that the job's choice writes ÷ those of the best trigger."""
    for load in LOADS.values():
        options = [{"num-sorted-run.compaction-trigger": trigger} for trigger in TRIGGERS]
        best_writes = min(
            simulate(load, fixed_option, flushes).write_amplification for fixed_option in options
        )
        chosen_writes = simulate(load, {}, flushes, freshness=FRESHNESS).write_amplification
        name = f"compaction-policy = auto, writes ÷ the best trigger's, {load.name}"
        yield Goal(name, chosen_writes / best_writes, 1.3)


def decision_lines() -> Iterator[str]:
    """Yield a line about the cost of a choice: for new sizes, and for known ones."""
    rules, times_ms = UniversalCompaction(), list[float]()
    buckets = [
        BucketSizes(size=MB << power, flush_size=MB, level=5, num_levels=6)
        for power in range(4, 16)
    ]
    for _ in range(2):
        for sizes in buckets:
            start_s = time.process_time()
            choose_rules(sizes, rules, FixedRules(), FRESHNESS)
            times_ms.append(1000 * (time.process_time() - start_s))
    first_ms, repeated_ms = times_ms[: len(buckets)], times_ms[len(buckets) :]
    yield (
        f"a choice: {min(first_ms):.0f} to {max(first_ms):.0f} ms of the processor for sizes that "
        f"are not known, {max(repeated_ms):.2f} ms for known ones"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.compact.compaction_simulation")
    parser.add_argument("--flushes", type=int, default=FLUSHES)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    for line in lines(args.flushes, dict(pair.split("=", 1) for pair in args.set)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
