"""Counts the requests of a commit to S3, by kind for each snapshot, beside the goal.

    python -m bench.commit.requests [--epochs N]

The job's own `StreamTableCommit` and `TableMaintenance` write, compact, commit and expire on moto's
server, which counts the requests. Data and changelog files are left out, because their number
depends on the load. The exit code is 1 if a load takes more requests than its goal.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import create_or_open
from tests.support.jobs.table_writer import TableWriter
from tests.support.servers.s3_server import S3Server, running_server
from tests.support.tables.small_table import TIME_MS, SteppingClock

EPOCHS = 60
WARM_UP = 30
"""The number of epochs before the count; after these, snapshots expire if the load expires any."""
_SHOWN_MIN = 0.05
"""The minimum number of requests for each snapshot that a line shows."""
_GOAL = 22.3
"""Half of the requests of a commit whose steps do not share answers, in a trial on a store."""
_GOAL_EXPIRING = 42.0
"""An expiry reads and deletes about seven files for each snapshot, and lists before and after."""
_KINDS = (
    (r"/snapshot/(LATEST|EARLIEST)", r"snapshot/\1"),
    (r"/snapshot/snapshot-\d+", "snapshot/snapshot-N"),
    (r"/manifest/manifest-list-.*", "manifest/manifest-list"),
    (r"/manifest/manifest-.*", "manifest/manifest"),
    (r"/schema/.*", "schema/schema-N"),
    (r"/tag/.*", "tag/*"),
    (r"/(bucket-\d+)/.*", "data"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLoad:
    """A load, and the goal for its average number of requests per snapshot."""

    name: str
    options: Mapping[str, str]
    goal: float


_KEYED = {"bucket": "1", "num-sorted-run.compaction-trigger": "3"}
_NEVER_COMPACTED = {"bucket": "1", "num-sorted-run.compaction-trigger": "1000"}
LOADS = (
    RequestLoad(
        name="only new files",
        options=_NEVER_COMPACTED,
        goal=_GOAL,
    ),
    RequestLoad(name="with compactions, nothing expires", options=_KEYED, goal=_GOAL),
    RequestLoad(
        name="with a changelog, nothing expires",
        options={**_KEYED, "changelog-producer": "input"},
        goal=_GOAL,
    ),
    RequestLoad(
        name="with a changelog, one expires with each",
        options={
            **_KEYED,
            "changelog-producer": "input",
            "snapshot.num-retained.min": "10",
            "snapshot.num-retained.max": "10",
        },
        goal=_GOAL_EXPIRING,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCount:
    """The requests of a load, by kind, and the number of its snapshots."""

    load: RequestLoad
    snapshots: int
    kinds: Mapping[str, int]

    @property
    def mean(self) -> float:
        """The number of requests for each snapshot."""
        return sum(self.kinds.values()) / self.snapshots

    @property
    def is_met(self) -> bool:
        """Whether the goal is met."""
        return self.mean <= self.load.goal


def count(s3: S3Server, load: RequestLoad, epochs: int) -> RequestCount:
    """Commit epochs of five rows to a new table, and return the counted requests."""
    schema = new_table_schema(
        columns=parse_columns("k INT NOT NULL, a STRING"),
        primary_keys=("k",),
        partition_keys=(),
        options=load.options,
        time_ms=TIME_MS,
    )
    location = f"s3://{s3.new_bucket()}/warehouse/db.db/t"
    table = create_or_open(location, schema, SteppingClock(), file_io_options=s3.options)
    writer, upkeep = TableWriter(table), TableMaintenance(table)
    first_id = 0
    for epoch in range(WARM_UP + epochs):
        if epoch == WARM_UP:
            first_id = table.snapshots.latest_id() or 0
            s3.requests.clear()
        upkeep.before_rows()
        writer.write([("+I", {"k": row + epoch, "a": "x"}) for row in range(5)])
        upkeep.after_commit()
    kinds = Counter(kind for kind in map(_kind, s3.requests.copy()) if kind != "data")
    snapshot_count = (table.snapshots.latest_id() or 0) - first_id
    return RequestCount(load=load, snapshots=snapshot_count, kinds=kinds)


def _kind(request: tuple[str, str]) -> str:
    method, path = request
    if "list-type" in path:
        folder = parse_qs(urlsplit(path).query)["prefix"][0].rstrip("/")
        return f"LIST {folder.rpartition('/')[2]}/"
    if path.endswith("?delete"):
        return "POST delete"
    for pattern, name in _KINDS:
        if match := re.search(pattern, path):
            return "data" if name == "data" else f"{method} {match.expand(name)}"
    return f"{method} {path}"


def measure(epochs: int) -> Iterator[RequestCount]:
    """Yield the counts of all loads, one after another."""
    with running_server() as s3:
        for load in LOADS:
            yield count(s3, load, epochs)


class GoalMissedError(Exception):
    """An error: a load takes more requests than its goal."""


def lines(counts: Iterable[RequestCount]) -> Iterator[str]:
    """Yield the results of `measure` as text.

    Raises:
        GoalMissedError: a load has missed its goal; raised after the last line.
    """
    missed_goals = []
    for count in counts:
        yield from load_lines(count)
        if not count.is_met:
            missed_goals.append(count.load.name)
    if missed_goals:
        raise GoalMissedError(f"more requests than the goal: {'; '.join(missed_goals)}")


def load_lines(count: RequestCount) -> Iterator[str]:
    """Yield a row for docs/performance/committing.md, and then the requests by kind."""
    met = "met" if count.is_met else "missed"
    yield f"{count.load.name}: {count.mean:.1f} requests a snapshot, goal {count.load.goal} ({met})"
    for kind, number in sorted(count.kinds.items(), key=lambda item: -item[1]):
        if number / count.snapshots >= _SHOWN_MIN:
            yield f"    {number / count.snapshots:5.2f}  {kind}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.commit.requests")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    args = parser.parse_args()
    try:
        for line in lines(measure(args.epochs)):
            print(line, flush=True)
    except GoalMissedError as missed:
        sys.exit(f"error: {missed}")


if __name__ == "__main__":
    main()
