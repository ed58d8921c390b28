"""A whole job whose table, checkpoint and quarantine lie on a cluster's file system, and is killed.

Each epoch is in the table once, each bad record in the quarantine once, and a checkpoint of another
table is refused, as on a local disk.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

import pytest

from stream_app.app.launch.embedded_broker import EmbeddedBroker
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.store_registry import file_io_of
from stream_app.table.opening import open_file_store_table
from tests.support.brokers.kafka_broker import new_topic, produce
from tests.support.jobs.ingest_process import IngestProcess, job_conf
from tests.support.jobs.ingest_server import IngestServer
from tests.support.jobs.job_harness import change
from tests.support.jobs.table_writer import read_changes, read_rows
from tests.support.servers.hdfs_cluster import HdfsCluster
from tests.support.servers.s3_server import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.java, pytest.mark.slow]
KILLS = 1
MESSAGES_PER_RUN = 60


@dataclass(frozen=True)
class Place:
    """A folder on a file system of a cluster, and what the configuration says of it."""

    folder: str
    options: Mapping[str, str]

    @property
    def table(self) -> str:
        return f"{self.folder}/warehouse/db.db/t"

    @property
    def files(self) -> FileIO:
        return file_io_of(self.folder, self.options)[1]


@pytest.fixture(params=[pytest.param("hdfs", marks=pytest.mark.variant), "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "hdfs":
        hdfs: HdfsCluster = request.getfixturevalue("hdfs")
        return Place(hdfs.new_folder(), {})
    s3: S3Server = request.getfixturevalue("s3")
    return Place(f"s3://{s3.new_bucket()}/jobs/one", s3.options)


def test_a_job_that_is_killed_beside_a_remote_checkpoint(
    place: Place,
    tmp_path: Path,
    kafka_broker: EmbeddedBroker,
    ingest_server: IngestServer,
    seed: int,
) -> None:
    topic = new_topic(kafka_broker, partitions=1)
    conf = job_conf(
        tmp_path,
        source={
            "bootstrap-servers": kafka_broker.bootstrap,
            "topics": [topic],
            "max-offsets-per-trigger": 15,
        },
        table={
            "warehouse": f"{place.folder}/warehouse",
            "options.num-sorted-run.compaction-trigger": "3",
        },
        stream={
            "checkpoint": f"{place.folder}/checkpoint",
            "quarantine": f"{place.folder}/quarantine",
            "trigger": "0 seconds",
        },
        **{"file-system": place.options},
    )
    job, random, files = IngestProcess(conf, tmp_path), Random(seed), place.files
    sent = 0
    for _ in range(KILLS):
        messages = [change(number % 50, f"v{number}") for number in _numbers(sent)]
        produce(kafka_broker, topic, [*messages, (b"k", f"no JSON {sent}".encode())])
        sent += MESSAGES_PER_RUN
        job.start()
        ahead = _latest_id(files, place) + random.randrange(1, 4)
        job.wait_for(partial(_is_at, files, place, ahead))
        job.kill()
    rest = ingest_server.run(conf, "stream.trigger=availableNow")
    assert rest.code == 0, rest.output

    table = open_file_store_table(place.table, file_io_options=place.options)
    rows = {row["id"]: row["v"] for row in read_rows(table)}
    assert rows == {number % 50: f"v{number}" for number in range(sent)}
    changes = [row["v"] for epoch in read_changes(table).values() for _, row in epoch]
    assert sorted(changes) == sorted(f"v{number}" for number in range(sent)), "each change once"
    replayed_epochs = [
        json.loads(line)["value"]
        for name in files.list_names(f"{place.folder}/quarantine")
        for line in files.read_bytes(f"{place.folder}/quarantine/{name}").decode().splitlines()
    ]
    assert sorted(replayed_epochs) == sorted(
        f"no JSON {MESSAGES_PER_RUN * run}" for run in range(KILLS)
    )
    assert not list(tmp_path.glob("*checkpoint*")), "nothing lies on this machine"

    refused_run = ingest_server.run(conf, "table.name=other")
    assert refused_run.code == 2
    assert f"the checkpoint belongs to the table {place.table}, not" in refused_run.error


def _numbers(start: int) -> range:
    return range(start, start + MESSAGES_PER_RUN)


def _is_at(files: FileIO, place: Place, ahead: int, _: object) -> bool:
    return _latest_id(files, place) >= ahead


def _latest_id(files: FileIO, place: Place) -> int:
    names = files.list_names(f"{place.table}/snapshot")
    numbers = [name.removeprefix("snapshot-") for name in names if name.startswith("snapshot-")]
    return max(map(int, numbers), default=0)
