"""Measures the job beside Paimon's own streaming sink for Spark: equal epochs of the same files.

    python -m bench.jobs.spark_sink --python PYTHON --jars JARS
        [--rows N] [--epochs N] [--changes N]

PYTHON is that of an environment with PySpark 4.0. JARS are Paimon's connector for Spark 4.0 and its
dependencies, separated by commas. Both have two cores, two buckets, and one file of messages for
each epoch. The figures for each kind of table are seconds of the clock and of the processor,
sink ÷ job. Start, load and the first small epochs are left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.goal import Goal
from bench.process_time import run_metered
from stream_app.table.opening import open_file_store_table
from tests.support.jobs.table_writer import read_rows

CORES = 2
COLUMNS = "k BIGINT NOT NULL, v STRING, w STRING, n BIGINT"
ROW = "k BIGINT, v STRING, w STRING, n BIGINT"
WARM = 4
"""The number of epochs that do not count: the load, and small ones in which code is compiled."""
KINDS: Mapping[str, Mapping[str, str]] = {
    "none": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup"},
    "deletion vectors": {"deletion-vectors.enabled": "true"},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.jobs.spark_sink")
    parser.add_argument("--python")
    parser.add_argument("--jars")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(_ours(json.loads(options.worker))))
        return
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as name:
        folder = Path(name)
        _write_messages(folder, options.rows, options.epochs, options.changes)
        print(
            f"{options.epochs} epochs of {options.changes:,} random keys on {options.rows:,} rows"
        )
        for kind in options.kinds:
            _compare(kind, folder, options.python, options.jars)


def goals(folder: Path, python: str | None, jars: str | None, changes: int) -> Iterator[Goal]:
    """Yield the goal by the clock, with changelog input; not measured without Python and jars."""
    name, bound = "ingest ÷ Paimon's sink for Spark, by the clock", 4.5
    if python is None or jars is None:
        yield Goal(f"{name} (needs --sink-python and --sink-jars)", None, bound, at_least=True)
        return
    _write_messages(folder, 1_000_000, 8, changes)
    yield Goal(name, _compare("input", folder, python, jars), bound, at_least=True)


def _compare(kind: str, folder: Path, python: str, jars: str) -> float:
    """Measure both, and return the seconds of the clock, sink ÷ job."""
    job = {
        "options": {"bucket": "2", **KINDS[kind]}, "cores": CORES, "columns": COLUMNS, "row": ROW,
        "first": str(folder / "first"), "rest": str(folder / "rest"), "jars": jars,
    }  # fmt: skip
    folder_name = kind.replace(" ", "-")
    sink_result = _run(
        [python, "-m", "bench.jobs.spark_sink_peer"], job, folder / f"{folder_name}-sink"
    )
    job_result = _run(
        [sys.executable, "-m", "bench.jobs.spark_sink", "--worker"], job, folder / folder_name
    )
    assert (job_result["rows"], job_result["total"]) == (
        sink_result["rows"],
        sink_result["total"],
    ), "the same table"
    (sink_processor_s, sink_s) = sink_result["seconds"]
    (job_processor_s, job_s) = job_result["seconds"]
    print(
        f"{kind:18} sink: {sink_s:6.1f} s, processor {sink_processor_s:6.1f} s; "
        f"job: {job_s:6.1f} s, processor {job_processor_s:6.1f} s; "
        f"sink / job: {sink_s / job_s:5.2f}, processor {sink_processor_s / job_processor_s:5.2f}",
        flush=True,
    )
    return float(sink_s / job_s)


def _run(command: Sequence[str], job: dict[str, Any], folder: Path) -> dict[str, Any]:
    folder.mkdir()
    job_text = json.dumps({**job, "folder": str(folder)})
    output, timeline = run_metered([*command, job_text])
    result: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    start, end = result["between"]
    return {**result, "seconds": (timeline.seconds_between(start, end), end - start)}


def _write_messages(folder: Path, rows: int, epochs: int, changes: int) -> None:
    """Write a file for each epoch. The first has all keys."""
    random = np.random.default_rng(0)
    offset = 0
    for epoch in range(WARM + epochs):
        keys = np.arange(rows) if epoch == 0 else random.choice(rows, changes, replace=False)
        path = folder / ("first" if epoch < WARM else "rest") / f"{epoch:04}.jsonl"
        path.parent.mkdir(exist_ok=True)
        digits = random.bytes(32 * len(keys)).hex()
        with path.open("w") as file:
            for index, key in enumerate(keys.tolist()):
                texts = (
                    digits[64 * index : 64 * index + 32],
                    digits[64 * index + 32 : 64 * index + 64],
                )
                value = json.dumps({"k": key, "v": texts[0], "w": texts[1], "n": epoch})
                line = {"topic": "t", "partition": 0, "offset": offset, "key": None, "value": value}
                file.write(json.dumps(line) + "\n")
                offset += 1
        time.sleep(0.02)  # sources read files in the order of their times


def _ours(job: dict[str, Any]) -> dict[str, Any]:
    """Run the job in this process, and return its rows and the times between which epochs count."""
    from stream_app.app.config.app_config import load_config
    from stream_app.app.launch.jars import installed_spark_version, spark_kafka_jars
    from stream_app.app.submit import ingest_main
    from stream_app.app.submit.job_settings import job_settings
    from stream_app.clock import SystemClock
    from stream_app.spark.driver.session import launch_settings, start_session

    folder = Path(job["folder"])
    source = folder / "source"
    source.mkdir()
    for part in ("first", "rest"):
        for file in sorted(Path(job[part]).iterdir()):
            (source / file.name).hardlink_to(file)
    settings = {"spark.master": f"local[{job['cores']}]", "spark.driver.memory": "2g"}
    launch = launch_settings(settings, jars=spark_kafka_jars(installed_spark_version()))
    start_session("bench", settings, launch)
    conf, events = _conf(job, folder, source, settings), folder / "events.jsonl"
    start_times: list[float] = []
    watch_thread = threading.Thread(target=_watch, args=(events, start_times), daemon=True)
    watch_thread.start()
    ingest_main.run(job_settings(load_config(conf, [], {}), events), SystemClock())
    interval = start_times[0], time.monotonic()
    rows = read_rows(open_file_store_table(str(folder / "warehouse/db.db/t")))
    return {"between": interval, "rows": len(rows), "total": sum(row["n"] for row in rows)}


def _conf(job: dict[str, Any], folder: Path, source: Path, settings: Mapping[str, str]) -> Path:
    sections = {
        "source": {
            "kind": "files", "path": str(source), "max-files-per-trigger": 1, "format": "json",
        },
        "table": {
            "warehouse": str(folder / "warehouse"), "database": "db", "name": "t",
            "columns": job["columns"], "primary-keys": ["k"],
        },
        "table.options": job["options"],
        "stream": {"checkpoint": str(folder / "checkpoint"), "trigger": "availableNow"},
        "spark": settings,
    }  # fmt: skip
    lines = []
    for section, values in sections.items():
        lines.append(f"[{section}]")
        lines += [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in values.items()]
    conf = folder / "job.toml"
    conf.write_text("\n".join(lines) + "\n")
    return conf


def _watch(events: Path, start_times: list[float]) -> None:
    """Add the time at which `WARM` epochs are committed to `start_times`."""
    while True:
        if events.exists() and events.read_text().count('"event": "epoch"') >= WARM:
            start_times.append(time.monotonic())
            return
        time.sleep(0.02)


if __name__ == "__main__":
    main()
