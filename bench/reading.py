"""Reading beside PyPaimon, Paimon's Java reader, and Arrow reading the same files without a merge.

    python -m bench.reading [--rows N] [--repeats N] [--keep FOLDER]

One table of 20 columns in four buckets, first with five sorted runs in each, then compacted. Every
reader is a process of its own with one thread; each case is run several times in it, and the
fastest counts, so that Java is warm. Rates are rows that come out by seconds of the processor; a
scan is also held against Arrow's seconds for the same files. PyPaimon merges row by row: of whole
tables it reads one bucket. With 20 M rows about fifteen minutes. Goals: three times PyPaimon's
rate, Java's rate, 1.5 × Arrow's time with five runs, 1.1 × compacted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.reading_table import KEY_SPACE, RUNS, compact_all, runs_table
from stream_app.table.file_store_table import FileStoreTable
from tests.support.own_environment import python_of
from tests.support.paimon_jvm import class_path_of_paimon, java_tool
from tests.support.pypaimon_reader import LOCK_LIST

ROWS = 20_000_000
HERE = Path(__file__).parent
ARMS = HERE / "reading_arms.py"
JAVA = HERE / "ReadingJava.java"
_MB = 1 << 20


@dataclass(frozen=True)
class Run:
    """The fastest run of a case.

    Attributes:
        peak: most memory of the process so far, bytes; None of Java, whose heap says little.
    """

    rows: int
    wall_s: float
    cpu_s: float
    peak: int | None = None


def cases(rows: int) -> dict[str, str]:
    """By name, in the arms' form. Keys are spread over `KEY_SPACE` × rows."""
    keys = rows * KEY_SPACE
    low = keys // 2
    return {
        "all rows, 20 columns": "",
        "all rows, 2 columns": "columns=k,v1",
        "1 % of the keys": f"low={low};high={low + keys // 100}",
        "one key": f"equal={low + 1}",
        "one epoch": f"incremental={RUNS - 1},{RUNS}",
    }


def lines(folder: Path, rows: int, repeats: int) -> Iterator[str]:
    table = runs_table(folder, rows)
    yield from _table_lines(table, f"{RUNS} runs a bucket", cases(rows), repeats, 1.5)
    compact_all(table)
    _delete_old_files(table)
    compacted = {name: case for name, case in cases(rows).items() if "epoch" not in name}
    yield ""
    yield from _table_lines(table, "compacted", compacted, repeats, 1.1)


def _table_lines(
    table: FileStoreTable, title: str, wanted: dict[str, str], repeats: int, goal: float
) -> Iterator[str]:
    yield (
        f"| {title} | rows | rows/s | Java's | PyPaimon's | ÷ Java (goal 1) | ÷ PyPaimon "
        f"(goal 3) | time ÷ Arrow (goal {goal}) | most memory, MB |"
    )
    yield f"| --- |{' ---: |' * 8}"
    for name, case in wanted.items():
        ours = _arm("ours", table, repeats, case)
        java = _java(table, repeats, case)
        theirs = _arm("pypaimon", table, 1, _for_pypaimon(table, case))
        plain = _arm("pyarrow", table, repeats, case) if name.startswith("all") else None
        rates = [run.rows / run.cpu_s for run in (ours, java, theirs)]
        cells = (
            name,
            f"{ours.rows:,}",
            *(f"{rate:,.3g}" if rate < 10 else f"{rate:,.0f}" for rate in rates),
            f"{rates[0] / rates[1]:.2f}",
            f"{rates[0] / rates[2]:.1f}",
            "" if plain is None else f"{ours.cpu_s / plain.cpu_s:.2f}",
            f"{(ours.peak or 0) / _MB:,.0f}",
        )
        if java.rows != ours.rows:
            raise RuntimeError(f"{name}: Java reads {java.rows} rows, we {ours.rows}")
        yield f"| {' | '.join(cells)} |"


def _for_pypaimon(table: FileStoreTable, case: str) -> str:
    if "incremental" in case:
        before, after = (table.snapshots.snapshot(RUNS - 1), table.snapshots.snapshot(RUNS))
        return f"between-times={before.time_millis},{after.time_millis};buckets=1"
    return case if case.startswith(("low", "equal")) else f"{case};buckets=1".lstrip(";")


def _arm(arm: str, table: FileStoreTable, repeats: int, case: str) -> Run:
    python = python_of("pypaimon", LOCK_LIST) if arm == "pypaimon" else Path(sys.executable)
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
    place = Path(table.location)
    names = [str(place.parents[1]), place.parent.stem, place.name]
    command = [
        java_tool("java"), "-Xmx4g", "-XX:+UseSerialGC", "-cp", class_path_of_paimon(), str(JAVA),
        *names, str(repeats), f"case;{case}".rstrip(";"),
    ]  # fmt: skip
    return _fastest(command, dict(os.environ))


def _fastest(command: Sequence[str], environment: dict[str, str]) -> Run:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-4000:]}")
    runs = []
    for line in done.stdout.splitlines():
        words = line.split()
        if words[:1] == ["case"]:
            peak = int(words[4]) if len(words) > 4 else None
            runs.append(Run(int(words[1]), float(words[2]), float(words[3]), peak))
    return min(runs, key=lambda run: run.cpu_s)


def _delete_old_files(table: FileStoreTable) -> None:
    """Arrow must see the compacted files alone."""
    from stream_app.table.versions.file_store_scan import FileStoreScan

    live = {entry.file.file_name for entry in FileStoreScan(table).live(table.snapshots.latest())}
    for file in Path(table.location).glob("bucket-*/data-*"):
        if file.name not in live:
            file.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reading")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as folder:
        for line in lines(Path(folder), args.rows, args.repeats):
            print(line, flush=True)


if __name__ == "__main__":
    main()
