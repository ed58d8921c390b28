"""Pytest's options, hooks and fixtures for all tests. Other helpers live in tests/support."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import settings

from tests.support.brokers.kafka_broker import kafka_broker
from tests.support.brokers.secure_kafka import secure_kafka
from tests.support.engines.spark_kafka_source import spark_kafka_source
from tests.support.engines.spark_session import spark
from tests.support.jobs.ingest_server import ingest_server
from tests.support.jobs.job_harness import harness
from tests.support.judges.iceberg_reader import IcebergReader
from tests.support.judges.paimon_jars import paimon_s3_jars
from tests.support.judges.paimon_java import PaimonJava
from tests.support.judges.pypaimon_reader import PyPaimonReader
from tests.support.servers.hdfs_cluster import hdfs, hdfs_session
from tests.support.servers.http_receiver import receiver
from tests.support.servers.rest_server import RestServer
from tests.support.servers.s3_server import s3, s3_session
from tests.support.suite.samples import further_cases
from tests.support.suite.shares_of_work import (
    pytest_xdist_auto_num_workers,
    pytest_xdist_make_scheduler,
)
from tests.support.suite.strides import Strides
from tests.testbed.servers.apicurio import apicurio
from tests.testbed.testbed import testbed

__all__ = [
    "apicurio",
    "harness",
    "hdfs",
    "hdfs_session",
    "ingest_server",
    "kafka_broker",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
    "receiver",
    "s3",
    "s3_session",
    "secure_kafka",
    "spark",
    "spark_kafka_source",
    "testbed",
]
# Imported here, servers are started once for the whole session.
SEED_VARIABLE = "STREAM_APP_TEST_SEED"
SEED = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="strike each operation, and run each variant"
    )


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all tests are collected, which live to the end
    # A busy machine makes no example wrong.
    examples = 100 if config.getoption("thorough") else 25
    settings.register_profile("stream_app", deadline=None, max_examples=examples)
    settings.load_profile("stream_app")
    seed_text = os.environ.get(SEED_VARIABLE) or "1"
    seed = int.from_bytes(os.urandom(4), "big") if seed_text == "random" else int(seed_text)
    os.environ[SEED_VARIABLE] = str(seed)  # for the processes among which the files are shared out
    config.stash[SEED] = seed
    # Jobs that tests start keep Spark's words in their output, and no file in the user's home.
    os.environ.setdefault("STREAM_APP_SPARK_LOG", "-")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the variants and further cases of costly tests out unless all are wanted."""
    if not config.getoption("thorough"):
        variants = {item for item in items if item.get_closest_marker("variant")}
        other_items = [item for item in items if item not in variants]
        left_out = variants.union(further_cases(other_items, config.stash[SEED]))
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Exclude the collected tests, which live to the end, from garbage collections."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.stash[SEED]} (again with {SEED_VARIABLE}={config.stash[SEED]})"


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """Always the same unless the environment says otherwise, printed in the header."""
    return pytestconfig.stash[SEED]


@pytest.fixture(scope="session")
def strides(pytestconfig: pytest.Config, seed: int) -> Strides:
    """Which operations are struck: every sixth one, or each with ``--thorough``."""
    return Strides(1 if pytestconfig.getoption("thorough") else 6, seed)


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files need not outlive the machine: spares waiting for the disk."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture(scope="session")
def paimon_java() -> Iterator[PaimonJava]:
    """Paimon's own library in one JVM for the session."""
    with PaimonJava() as judge:
        yield judge


@pytest.fixture(scope="session")
def java_on_s3() -> Iterator[PaimonJava]:
    """Paimon's own library in another JVM, with its file system of S3."""
    with PaimonJava(paimon_s3_jars()) as judge:
        yield judge


@pytest.fixture(scope="session")
def iceberg() -> Iterator[IcebergReader]:
    """PyIceberg and DuckDB in their own virtual environment."""
    with IcebergReader() as judge:
        yield judge


@pytest.fixture(scope="session")
def rest_server() -> Iterator[RestServer]:
    """Paimon's own test server of the REST catalog; take a warehouse of your own."""
    with closing(RestServer()) as server:
        yield server


@pytest.fixture(scope="session")
def pypaimon() -> Iterator[PyPaimonReader]:
    """PyPaimon in its own virtual environment."""
    with PyPaimonReader() as judge:
        yield judge
