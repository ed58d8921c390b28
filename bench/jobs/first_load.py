"""Measures a first load from PostgreSQL, beside the same rows through Debezium and Kafka.

    python -m bench.jobs.first_load [--rows N]

Both ways fill a new table of the lake from a table of the source: once with half of the rows, once
with all. Processor seconds are those of the job's process tree, of Kafka Connect and of the broker,
but not of the database. The cost of one more row is the slope between both runs, without the start.
A load has six times the rows of a topic. Otherwise the error of the start, a second or two, would
be larger than the slope. Messages have no schema, which is the cheapest form of Debezium's
messages. A first run of a few rows does not count, because it compiles code for the others.
Goal: ≥ 5 × the rows a processor second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition

from bench.goal import Goal
from bench.process_time import ProcessorMeter, run_metered
from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.table.api.paimon_table import open_table
from tests.support.brokers.kafka_broker import new_topic
from tests.support.jobs.ingest_process import write_conf
from tests.testbed.servers.postgres import USER
from tests.testbed.source_database import PostgresDatabase
from tests.testbed.testbed import Testbed, running_testbed

ROWS = 600_000
GOAL = 5.0
LOAD, TOPIC = "first load", "Debezium and Kafka"
TIMES = {LOAD: 6, TOPIC: 1}
"""Way → the factor by which its rows are multiplied."""
_WARM_ROWS = 1_000
COLUMNS = (
    "id BIGINT, customer STRING, amount DECIMAL(12, 2), status STRING, updated_at TIMESTAMP(6), "
    "note STRING"
)
_FILL = """
    insert into orders select id, 'customer ' || id % 10007, (id % 100003) / 100.0,
        (array['new', 'paid', 'sent', 'back'])[1 + id % 4],
        timestamp '2026-01-01' + id * interval '1 second', 'note ' || md5(id::text)
    from generate_series(1, {rows}) id"""


@dataclass(frozen=True)
class LoadNumbers:
    """The processor seconds of each way, with half of the rows and with all."""

    rows: int
    seconds: Mapping[str, tuple[float, float]]

    def rate(self, way: str) -> float:
        """Return the rows per processor second, without the start."""
        half_s, all_s = self.seconds[way]
        return TIMES[way] * (self.rows - self.rows // 2) / (all_s - half_s)

    @property
    def ratio(self) -> float:
        return self.rate(LOAD) / self.rate(TOPIC)

    def lines(self) -> Iterator[str]:
        for way, (half_s, all_s) in self.seconds.items():
            yield (
                f"{way:20} half {half_s:.1f} s, all {all_s:.1f} s of the processor; "
                f"{self.rate(way):,.0f} rows a processor second"
            )
        yield f"{LOAD} ÷ {TOPIC}: {self.ratio:.1f} (goal ≥ {GOAL:g})"


def measure(rows: int, folder: Path) -> LoadNumbers:
    """Fill tables in both ways, each with half of the rows and with all."""
    seconds: dict[str, list[float]] = {LOAD: [], TOPIC: []}
    with EmbeddedBroker(folder / "kafka") as broker, running_testbed(broker) as testbed:
        for way in TIMES:
            with testbed.postgres_database(f"bench_warm_{_short_name(way)}") as database:
                _load_s(way, _WARM_ROWS, folder / database.name, testbed, database)
        for count in (rows // 2, rows):
            for way, way_seconds in seconds.items():
                name = f"bench_{len(way_seconds)}_{_short_name(way)}"
                with testbed.postgres_database(name) as database:
                    way_seconds.append(
                        _load_s(way, TIMES[way] * count, folder / name, testbed, database)
                    )
    return LoadNumbers(
        rows, {way: (way_seconds[0], way_seconds[1]) for way, way_seconds in seconds.items()}
    )


def goals(rows: int, folder: Path) -> Iterator[Goal]:
    """Yield the goal for the ratio of both ways."""
    name = f"rows a processor second, {LOAD} ÷ {TOPIC}"
    yield Goal(name, measure(rows, folder).ratio, GOAL, at_least=True)


def _short_name(way: str) -> str:
    return "load" if way == LOAD else "topic"


def _load_s(
    way: str, count: int, folder: Path, testbed: Testbed, database: PostgresDatabase
) -> float:
    database.execute(
        "create table orders (id bigint primary key, customer text, amount numeric(12, 2), "
        "status text, updated_at timestamp(6), note text)"
    )
    database.execute(_FILL.format(rows=count))
    topic = new_topic(testbed.broker, name=f"{database.name}.shop.orders")
    servers = (testbed.connect.pid, testbed.broker.pid or 0)
    earlier_s = [ProcessorMeter(pid).seconds() for pid in servers]
    mode = "no_data" if way == LOAD else "initial"
    settings = {"snapshot.mode": mode, "value.converter.schemas.enable": "false"}
    database.start_connector(testbed.connect, {**settings, "key.converter.schemas.enable": "false"})
    source: dict[str, object] = {
        "bootstrap-servers": testbed.broker.bootstrap, "topics": [topic],
    }  # fmt: skip
    if way == LOAD:
        database_url = f"127.0.0.1:{testbed.postgres.port}/{database.name}?user={USER}"
        source["snapshot-from"] = f"jdbc:postgresql://{database_url}"
        source["snapshot-table"] = "shop.orders"
    else:
        _wait_for(testbed.broker, topic, count)
    folder.mkdir(parents=True)
    conf = write_conf(
        folder / "job.toml",
        source=source,
        table={
            "warehouse": str(folder / "warehouse"),
            "name": "orders",
            "columns": COLUMNS,
            "primary-keys": ["id"],
            "options.bucket": "2",
        },
        stream={"checkpoint": str(folder / "checkpoint"), "trigger": "availableNow"},
        spark={"spark.master": "local[2]"},
    )
    _, timeline = run_metered([sys.executable, "-m", "stream_app", "ingest", "--conf", str(conf)])
    table = open_table(str(folder / "warehouse" / "default.db" / "orders"))
    assert table.read().read_all().num_rows == count
    later_s = [ProcessorMeter(pid).seconds() for pid in servers]
    return timeline.total + sum(later_s) - sum(earlier_s)


def _wait_for(broker: EmbeddedBroker, topic: str, count: int) -> None:
    """Wait until the topic has this number of messages."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    partition = TopicPartition(topic, 0)
    while consumer.end_offsets([partition])[partition] < count:
        time.sleep(0.5)
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stream_app-bench-") as name:
        for line in measure(args.rows, Path(name)).lines():
            print(line, flush=True)


if __name__ == "__main__":
    main()
