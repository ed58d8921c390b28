"""Measures reads beside Paimon's readers in Java, Python and Rust, and beside Arrow.

    python -m bench.read.reading [--rows N] [--repeats N] [--keep FOLDER]

The table has 20 columns and four buckets, first with five sorted runs in each, then compacted.
Every reader is another process with one thread. It runs each case several times, and the fastest
run counts, so that Java is warm. A rate is the number of returned rows ÷ processor seconds. The
time of a whole read is also compared with that of Arrow, which reads the same files without a
merge. PyPaimon merges row by row, so it reads only one bucket of a whole table.

20 M rows take about fifteen minutes. `--keep` only makes the table with its runs, and prints its
path for `reading_arms`. Goals: three times PyPaimon's rate, Java's rate, 1.2 × the rate of Paimon
Rust, 1.5 × Arrow's time with five runs, 1.1 × compacted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.goal import Goal
from bench.read.reading_table import KEY_SPACE, RUNS, compact_all, runs_table
from stream_app.table.file_store_table import FileStoreTable
from tests.support.judges.own_environment import python_of
from tests.support.judges.paimon_jvm import class_path_of_paimon, java_tool
from tests.support.judges.pypaimon_reader import LOCK_LIST

ROWS = 20_000_000
HERE = Path(__file__).parent
ARMS = HERE / "reading_arms.py"
JAVA = HERE / "ReadingJava.java"
READERS = {"java": "Java", "pypaimon": "PyPaimon", "rust": "Rust"}
GOALS = {"java": 1, "pypaimon": 3, "rust": 1.2}
"""Reader → the goal of our rate ÷ its rate."""
_MB = 1 << 20


@dataclass(frozen=True)
class Run:
    """The fastest run of a case.

    Attributes:
        peak: the peak memory of the process so far in bytes, or None for Java.
    """

    rows: int
    wall_s: float
    cpu_s: float
    peak: int | None = None

    @property
    def rate(self) -> float:
        """The rows in a processor second; a read of a missing key counts as one row."""
        return max(1, self.rows) / self.cpu_s


def cases(rows: int) -> dict[str, str]:
    """Return name → case. Keys are spread over `KEY_SPACE` × rows."""
    keys = rows * KEY_SPACE
    low = keys // 2
    return {
        "all rows, 20 columns": "",
        "all rows, 2 columns": "columns=k,v1",
        "1 % of the keys": f"low={low};high={low + keys // 100}",
        "one key": f"equal={low + 1}",
        "one epoch": f"incremental={RUNS - 1},{RUNS}",
    }


@dataclass(frozen=True)
class Reads:
    """One case, read by each reader.

    Attributes:
        table: the title of the table: with its runs, or compacted.
        goal: the goal of our time ÷ Arrow's.
        others: other reader → its fastest run.
    """

    table: str
    name: str
    goal: float
    ours: Run
    others: Mapping[str, Run]

    def rate_ratio(self, other: str) -> float:
        """Return our rate ÷ another reader's."""
        return self.ours.rate / self.others[other].rate

    @property
    def arrow_ratio(self) -> float | None:
        """Our time ÷ Arrow's, or None, because Arrow reads only whole tables."""
        arrow = self.others.get("pyarrow")
        return None if arrow is None else self.ours.cpu_s / arrow.cpu_s

    def markdown(self) -> str:
        rates = [self.ours.rate, *(self.others[name].rate for name in READERS)]
        ratios = [self.rate_ratio(name) for name in READERS]
        cells = (
            self.name,
            f"{self.ours.rows:,}",
            *(f"{rate:,.3g}" if rate < 10 else f"{rate:,.0f}" for rate in rates),
            *(f"{ratio:.1f}" if ratio > 10 else f"{ratio:.2f}" for ratio in ratios),
            "" if self.arrow_ratio is None else f"{self.arrow_ratio:.2f}",
            f"{(self.ours.peak or 0) / _MB:,.0f}",
        )
        return f"| {' | '.join(cells)} |"


def lines(folder: Path, rows: int, repeats: int) -> Iterator[str]:
    title = ""
    for reads in measure(folder, rows, repeats, tuple(READERS)):
        if reads.table != title:
            if title:
                yield ""
            title = reads.table
            yield (
                f"| {title} | rows | rows/s | Java's | PyPaimon's | Paimon Rust's "
                f"| {' | '.join(f'÷ {READERS[name]} (goal {GOALS[name]})' for name in READERS)} "
                f"| time ÷ Arrow (goal {reads.goal}) | most memory, MB |"
            )
            yield f"| --- |{' ---: |' * 10}"
        yield reads.markdown()


def measure(folder: Path, rows: int, repeats: int, readers: Sequence[str]) -> Iterator[Reads]:
    """Read each case of both tables; Arrow reads only whole tables."""
    table = runs_table(folder, rows)
    for name, case in cases(rows).items():
        yield _reads(table, f"{RUNS} runs a bucket", name, case, 1.5, repeats, readers)
    compact_all(table)
    _delete_old_files(table)
    for name, case in cases(rows).items():
        if "epoch" not in name:
            yield _reads(table, "compacted", name, case, 1.1, repeats, readers)


def goals(folder: Path, rows: int, repeats: int) -> Iterator[Goal]:
    """Yield goals beside Paimon Rust for each case, and beside Arrow for whole tables."""
    for reads in measure(folder, rows, repeats, ("rust",)):
        case = f"{reads.name}, {reads.table}"
        name = f"reading ÷ Paimon Rust, {case}"
        yield Goal(name, reads.rate_ratio("rust"), GOALS["rust"], at_least=True)
        if reads.arrow_ratio is not None:
            yield Goal(f"reading, time ÷ Arrow's, {case}", reads.arrow_ratio, reads.goal)


def _reads(
    table: FileStoreTable,
    title: str,
    name: str,
    case: str,
    goal: float,
    repeats: int,
    readers: Sequence[str],
) -> Reads:
    ours = _arm("ours", table, repeats, case)
    arms: dict[str, Callable[[], Run]] = {
        "java": lambda: _java(table, repeats, case),
        "pypaimon": lambda: _arm("pypaimon", table, 1, _for_pypaimon(table, case)),
        "rust": lambda: _arm("rust", table, repeats, case),
    }
    others = {reader: arms[reader]() for reader in readers}
    if name.startswith("all"):
        others["pyarrow"] = _arm("pyarrow", table, repeats, case)
    for reader in ("java", "rust"):
        if reader in others and others[reader].rows != ours.rows:
            rows = others[reader].rows
            raise RuntimeError(f"{name}: {READERS[reader]} reads {rows} rows, we {ours.rows}")
    return Reads(title, name, goal, ours, others)


def _for_pypaimon(table: FileStoreTable, case: str) -> str:
    if "incremental" in case:
        before, after = (table.snapshots.snapshot(RUNS - 1), table.snapshots.snapshot(RUNS))
        return f"between-times={before.time_ms},{after.time_ms};buckets=1"
    return case if case.startswith(("low", "equal")) else f"{case};buckets=1".lstrip(";")


def _arm(arm: str, table: FileStoreTable, repeats: int, case: str) -> Run:
    is_other = arm in ("pypaimon", "rust")
    python = python_of("pypaimon", LOCK_LIST) if is_other else Path(sys.executable)
    command = [
        str(python),
        str(ARMS),
        arm,
        table.location,
        str(repeats),
        f"case;{case}".rstrip(";"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    return _fastest(command, environment)


def _java(table: FileStoreTable, repeats: int, case: str) -> Run:
    table_folder = Path(table.location)
    names = [str(table_folder.parents[1]), table_folder.parent.stem, table_folder.name]
    command = [
        java_tool("java"), "-Xmx4g", "-XX:+UseSerialGC", "-cp", class_path_of_paimon(), str(JAVA),
        *names, str(repeats), f"case;{case}".rstrip(";"),
    ]  # fmt: skip
    return _fastest(command, dict(os.environ))


def _fastest(command: Sequence[str], environment: dict[str, str]) -> Run:
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{process.stderr[-4000:]}")
    runs = []
    for line in process.stdout.splitlines():
        words = line.split()
        if words[:1] == ["case"]:
            peak = int(words[4]) if len(words) > 4 else None
            runs.append(Run(int(words[1]), float(words[2]), float(words[3]), peak))
    return min(runs, key=lambda run: run.cpu_s)


def _delete_old_files(table: FileStoreTable) -> None:
    """Delete the files that are not live, so that Arrow reads only compacted files."""
    from stream_app.table.versions.file_store_scan import FileStoreScan

    live = {entry.file.file_name for entry in FileStoreScan(table).live(table.snapshots.latest())}
    for file in Path(table.location).glob("bucket-*/data-*"):
        if file.name not in live:
            file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.read.reading")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    if args.keep:
        print(runs_table(args.keep, args.rows).location)
        return
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.rows, args.repeats):
            print(line, flush=True)


if __name__ == "__main__":
    main()
