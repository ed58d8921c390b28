"""Trino reads tables on S3 by their names in an Iceberg REST catalog.

Its archives hold 540 MB. Continuous integration and `./run.sh soak --trino` run it, `./run.sh test`
does not.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from math import inf

import pytest

from stream_app.model.schema.data_type import STRING, parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.schema.schema_changes import AddColumn
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import create_or_open, open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.catalog_table import VECTORS
from tests.support.tables.small_table import TIME_MS, SteppingClock
from tests.testbed.servers.iceberg_rest import IcebergRest
from tests.testbed.servers.trino import Trino, TrinoError

pytestmark = [
    pytest.mark.java,
    pytest.mark.slow,
    pytest.mark.skipif(
        "STREAM_APP_TEST_TRINO" not in os.environ, reason="`./run.sh soak --trino` runs it"
    ),
]
_INFINITIES = {"Infinity": inf, "-Infinity": -inf}
WHOLE = {"full-compaction.delta-commits": "1"}


@pytest.fixture(scope="module")
def server(s3_session: S3Server) -> Iterator[IcebergRest]:
    store = {
        "s3.endpoint": s3_session.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "client.region": "us-east-1",
    }
    with closing(IcebergRest(store)) as rest_server:
        yield rest_server


@pytest.fixture(scope="module")
def trino(server: IcebergRest, s3_session: S3Server) -> Iterator[Trino]:
    catalog = {
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": server.uri,
        "fs.native-s3.enabled": "true",
        "s3.endpoint": s3_session.endpoint,
        "s3.path-style-access": "true",
        "s3.region": "us-east-1",
        "s3.aws-access-key": ACCESS_KEY,
        "s3.aws-secret-key": SECRET_KEY,
    }
    with closing(Trino(catalog)) as engine:
        yield engine


def a_trino_table(
    s3: S3Server, uri: str, keys: Sequence[str], options: Mapping[str, str]
) -> FileStoreTable:
    bucket = s3.new_bucket()
    schema = new_table_schema(
        columns=parse_columns("id BIGINT, v STRING, amount DECIMAL(12, 2), ratio DOUBLE"),
        primary_keys=tuple(keys),
        partition_keys=(),
        options={
            "bucket": "1" if keys else "-1",
            "snapshot.num-retained.min": "2",
            "snapshot.num-retained.max": "3",
            "metadata.iceberg.storage": "rest-catalog",
            "metadata.iceberg.rest.uri": uri,
            "metadata.iceberg.database": bucket,
            **options,
        },
        time_ms=TIME_MS,
    )
    location = f"s3://{bucket}/warehouse/shop.db/orders"
    return create_or_open(location, schema, SteppingClock(), file_io_options=s3.options)


def name_of(table: FileStoreTable) -> str:
    return f'lake."{table.schema.options["metadata.iceberg.database"]}".orders'


def assert_same(trino: Trino, table: FileStoreTable) -> None:
    """Trino reads what we read; its JSON has decimals and infinities as texts."""
    trino_rows = trino.rows(f"SELECT * FROM {name_of(table)}")
    exact = [
        row
        | {
            "amount": None if row["amount"] is None else Decimal(row["amount"]),
            "ratio": _INFINITIES.get(row["ratio"], row["ratio"]),
        }
        for row in trino_rows
    ]
    assert by_content(exact) == by_content(read_rows(table))


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param((), id="append"),
        pytest.param(("id",), id="highest level", marks=pytest.mark.variant),
    ],
)
def test_epochs_alters_and_tags_are_seen(
    s3: S3Server, server: IcebergRest, trino: Trino, seed: int, keys: Sequence[str]
) -> None:
    rng = random.Random(seed)
    table = a_trino_table(s3, server.uri, keys, WHOLE if keys else {"ignore-delete": "true"})
    for number in range(3):
        writer = TableWriter(table, user=uuid.uuid4().hex)
        changes = RandomChanges(table.schema, rng, key_count=100)
        for _ in range(2):
            writer.write(changes.epoch(60))
            writer.commit.compact_fully() if keys else writer.commit.compact_due()
            TableMaintenance(table).after_commit()
            assert_same(trino, table)
        if number == 0:
            alter_table(table, [AddColumn(name="note", data_type=STRING)])
        latest_snapshot = table.snapshots.latest()
        assert latest_snapshot is not None
        assert create_tag(table, new_tag(table, f"round{number}", latest_snapshot.snapshot_id))
        rows_at_tag = len(read_rows(table))
        table = open_file_store_table(table.location, SteppingClock(), file_io_options=s3.options)
    writer = TableWriter(table, user=uuid.uuid4().hex)
    writer.write(RandomChanges(table.schema, rng, key_count=100).epoch(60))
    writer.commit.compact_fully() if keys else writer.commit.compact_due()
    assert_same(trino, table)
    [tagged_row] = trino.rows(f"SELECT count(*) n FROM {name_of(table)} FOR VERSION AS OF 'round2'")
    assert tagged_row["n"] == rows_at_tag


def test_deletion_vectors_are_refused_by_this_version(
    s3: S3Server, server: IcebergRest, trino: Trino, seed: int
) -> None:
    """docs/read/engines.md says so, and names the two ways out."""
    options = {**VECTORS, "num-sorted-run.compaction-trigger": "5"}
    table, rng = a_trino_table(s3, server.uri, ("id",), options), random.Random(seed)
    writer = TableWriter(table, user=uuid.uuid4().hex)
    changes = RandomChanges(table.schema, rng, key_count=500)
    for size in (1000, 20):
        writer.write(changes.epoch(size))
        writer.commit.compact_due()
    with pytest.raises(TrinoError, match="PUFFIN"):
        trino.rows(f"SELECT * FROM {name_of(table)}")
    writer.commit.compact_fully()
    assert_same(trino, table)
