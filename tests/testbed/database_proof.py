"""Two databases → Debezium → Kafka → one job, which is killed at random; then the comparison.

Used by tests/integration/databases, and by `./run.sh proof` for longer.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from stream_app.table.api.paimon_table import open_table
from tests.support.engines.fast_jvm import fast_jvm
from tests.support.jobs.ingest_process import IngestProcess, write_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.judges.paimon_java import PaimonJava
from tests.testbed.comparison import Read, column_differences, differences, replayed
from tests.testbed.source_database import SourceDatabase
from tests.testbed.testbed import Testbed
from tests.testbed.workload import EMPTIED, Workload

_PARTITIONS = {
    "topic.creation.default.partitions": "2",
    "topic.creation.groups": "emptied",
    "topic.creation.emptied.include": rf".*\.({'|'.join(EMPTIED)})",
    "topic.creation.emptied.partitions": "1",
    "topic.creation.emptied.replication.factor": "1",
}
_DRAIN_SECONDS = 1800
"""A hang's; a busy machine takes minutes for what a long proof has left."""


@dataclass
class DatabaseProof:
    """One job of two databases, and their workloads."""

    folder: Path
    testbed: Testbed
    workloads: Mapping[SourceDatabase, Workload]
    random: Random
    job: IngestProcess

    def work_and_kill(self, steps: int) -> None:
        """Start the job, work beside it, and kill it at a random moment after its first epoch."""
        before, epochs = len(self.job.events()), self.random.randint(1, 2)
        self.job.start()
        self.work(steps)

        def is_far_enough(events: Sequence[Mapping[str, Any]]) -> bool:
            self.work(1)  # an epoch needs something to take
            return epochs <= sum(event["event"] == "progress" for event in events[before:])

        self.job.wait_for(is_far_enough, every=0.5)
        time.sleep(self.random.uniform(0, 1))
        self.job.kill()

    def work(self, steps: int) -> None:
        """Steps of all workloads, in turns."""
        for _ in range(steps):
            for workload in self.workloads.values():
                workload.step()

    def drain(self, server: IngestServer | None = None) -> None:
        """Let the job take all that is left, and end.

        Args:
            server: runs it where a JVM runs already; None: the job is a process of its own.
        """
        for database, workload in self.workloads.items():
            workload.finish()
            database.wait_until_sent(self.testbed.connect)
        if server is not None:
            result = server.run(
                self.job.conf, "stream.trigger=availableNow", events=self.job.events_file
            )
            assert result.code == 0, result.output
            return
        self.job.start("--set", "stream.trigger=availableNow")
        assert self.job.finish(_DRAIN_SECONDS) == 0, self.job.log()

    def problems(self, java: PaimonJava) -> list[str]:
        """Bad records, and what is other than in the databases; nothing of either is right."""
        return self.quarantined() + self.differences(java)

    def differences(self, java: PaimonJava) -> list[str]:
        """Return the differences from the databases: columns by Java, rows by both readers."""

        def by_java(location: Path, _: Sequence[str]) -> list[Row]:
            return java.read(location)

        def by_javas_changelog(location: Path, key: Sequence[str]) -> list[Row]:
            plans = java.changelog(location, latest_schema=True)
            return replayed((change for plan in plans for change in plan.changes), key)

        def here(location: Path, _: Sequence[str]) -> list[Row]:
            return normal_rows(open_table(str(location)).read().read_all())

        readers: Mapping[str, Read] = {
            "Java": by_java,
            "Java's changelog": by_javas_changelog,
            "stream_app": here,
        }
        problems = [
            difference
            for database, workload in self.workloads.items()
            for table in workload.tables
            for difference in column_differences(
                database, table, self.location(database, table.name), java
            )
        ]
        return problems + [
            f"read by {name}: {difference}"
            for database, workload in self.workloads.items()
            for table in workload.tables
            for name, read in readers.items()
            # A changelog has no entry of a TRUNCATE.
            if table.name not in EMPTIED or name != "Java's changelog"
            for difference in differences(
                database, table, self.location(database, table.name), read
            )
        ]

    def story(self) -> list[str]:
        """Lines that tell how much the proof has tried."""
        epochs = sum(event["event"] == "epoch" for event in self.job.events())
        lines = [f"{self.job.runs} runs of the job, {epochs} commits of tables"]
        for database, workload in self.workloads.items():
            rows = sum(len(database.rows(table)) for table in workload.tables)
            columns = sum(len(table.key) + len(table.columns) for table in workload.tables)
            done = ", ".join(f"{name} {count}" for name, count in sorted(workload.done.items()))
            tables = f"{len(workload.tables)} tables, {columns} columns, {rows} rows"
            lines.append(f"{database.name}: {tables}; {done}")
        return lines

    def location(self, database: SourceDatabase, table: str) -> Path:
        """The folder of a table in the warehouse."""
        return self.folder / "warehouse" / "ods.db" / f"{database.name}_{table}"

    def quarantined(self) -> list[str]:
        """Topics and reasons of all dead letters, each once."""
        files = sorted((self.folder / "quarantine").rglob("*.jsonl"))
        lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
        reasons = Counter(f"{r['topic']}: {r['reason']}" for r in map(json.loads, lines))
        return [f"{count} records of {reason}" for reason, count in reasons.items()]


@contextmanager
def database_proof(
    folder: Path,
    testbed: Testbed,
    seed: int,
    *,
    name: str,
    alters: bool = False,
    big: int = 400,
    connector: Mapping[str, str] | None = None,
    **sections: Mapping[str, Any],
) -> Iterator[DatabaseProof]:
    """Databases with first rows and running connectors, and a job that has not started.

    Args:
        name: begins the databases' names, which no other test may have.
        connector: settings of both connectors.
        sections: of the job's configuration, beside the usual.
    """
    random = Random(seed)
    with (
        testbed.postgres_database(f"{name}_pg") as postgres,
        testbed.mariadb_database(f"{name}_my") as mariadb,
    ):
        workloads: dict[SourceDatabase, Workload] = {
            database: Workload(database, Random(random.random()), alters=alters, big=big)
            for database in (postgres, mariadb)
        }
        for database in workloads:
            settings = {**_PARTITIONS, "column.propagate.source.type": ".*"}
            database.start_connector(testbed.connect, {**settings, **(connector or {})})
        for database in workloads:
            # MariaDB ends the first read of a table that is altered or emptied meanwhile. And the
            # snapshot tells of the columns as they are before all ALTERs.
            database.wait_until_sent(testbed.connect)
        conf = _write_conf(folder, testbed, [workload.name for workload in workloads], sections)
        job = IngestProcess(conf, folder)
        yield DatabaseProof(folder, testbed, workloads, random, job)


def _write_conf(
    folder: Path, testbed: Testbed, names: list[str], sections: Mapping[str, Mapping[str, Any]]
) -> Path:
    usual: dict[str, dict[str, Any]] = {
        "source": {
            "bootstrap-servers": testbed.broker.bootstrap,
            "topic-pattern": rf"({'|'.join(names)})\..*",
            "max-offsets-per-trigger": 2000,
            "debezium.truncate": "apply",
        },
        "sync": {
            "warehouse": str(folder / "warehouse"),
            "database": "ods",
            "excluding-tables": "done",
            **{f"table-prefix-db.{name}": f"{name}_" for name in names},
            "options.bucket": "1",
            "options.changelog-producer": "input",
            **{f"tables.{name}_customers.options.bucket": "3" for name in names},
            **{f"tables.{name}_prices.partition-keys": ["day"] for name in names},
        },
        "stream": {
            "checkpoint": str(folder / "checkpoint"),
            "trigger": "0 seconds",
            "quarantine": str(folder / "quarantine"),
        },
        "spark": {"spark.master": "local[2]", "spark.driver.extraJavaOptions": fast_jvm()},
    }
    merged_sections = {key: {**values, **sections.get(key, {})} for key, values in usual.items()}
    return write_conf(folder / "job.toml", **merged_sections)
