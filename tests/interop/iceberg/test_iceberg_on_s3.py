"""An Iceberg REST catalog gives readers of tables on S3 the keys of the files."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from pyiceberg.catalog import Catalog, load_catalog

from stream_app.model.schema.data_type import STRING, parse_columns
from stream_app.model.schema.table_schema import new_table_schema
from stream_app.planning.schema.schema_changes import AddColumn
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import create_or_open, open_file_store_table
from stream_app.table.schema.alter import alter_table
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.named_table import NamedTable
from tests.support.judges.normal_rows import normal_rows
from tests.support.judges.paimon_jars import paimon_s3_jars
from tests.support.judges.paimon_java import PaimonJava
from tests.support.servers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.tables.small_table import TIME_MS, SteppingClock
from tests.testbed.servers.iceberg_rest import IcebergRest

pytestmark = pytest.mark.java
KINDS = {
    "vectors of version 3": {
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": "true",
        "metadata.iceberg.format-version": "3",
        "num-sorted-run.compaction-trigger": "2",
    },
    "highest level of version 2": {"full-compaction.delta-commits": "1"},
}


@pytest.fixture(scope="module")
def server(s3_session: S3Server) -> Iterator[IcebergRest]:
    store = {
        "s3.endpoint": s3_session.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
        "client.region": "us-east-1",
        "include-credentials": "true",  # readers get them with the table
    }
    with closing(IcebergRest(store)) as rest_server:
        yield rest_server


@pytest.fixture
def catalog(server: IcebergRest, s3: S3Server) -> Catalog:
    where = {"s3.endpoint": s3.endpoint, "s3.region": "us-east-1"}
    return load_catalog("reader", type="rest", uri=server.uri, **where)


@pytest.fixture(scope="module")
def java() -> Iterator[PaimonJava]:
    """Paimon's library, with its file system of S3."""
    with PaimonJava(paimon_s3_jars()) as judge:
        yield judge


def a_table_on_s3(s3: S3Server, uri: str, kind: str) -> FileStoreTable:
    bucket = s3.new_bucket()
    options = {
        "bucket": "1",
        "snapshot.num-retained.min": "2",
        "snapshot.num-retained.max": "3",
        "metadata.iceberg.storage": "rest-catalog",
        "metadata.iceberg.rest.uri": uri,
        "metadata.iceberg.database": bucket,
    }
    schema = new_table_schema(
        columns=parse_columns("id BIGINT, v STRING"),
        primary_keys=("id",),
        partition_keys=(),
        options={**options, **KINDS[kind]},
        time_ms=TIME_MS,
    )
    location = f"s3://{bucket}/warehouse/shop.db/orders"
    return create_or_open(location, schema, SteppingClock(), file_io_options=s3.options)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.variant] * (kind == "vectors of version 3"))
        for kind in KINDS
    ],
)
def test_epochs_and_columns_on_s3_are_seen_by_name(
    s3: S3Server, server: IcebergRest, catalog: Catalog, java: PaimonJava, seed: int, kind: str
) -> None:
    table, rng = a_table_on_s3(s3, server.uri, kind), random.Random(seed)
    name = f"{table.schema.options['metadata.iceberg.database']}.orders"
    for _ in range(2):
        writer = TableWriter(table, user=uuid.uuid4().hex)
        changes = RandomChanges(table.schema, rng, key_count=100)
        for _ in range(2):
            writer.write(changes.epoch(60))
            writer.commit.compact_fully() if kind.startswith(
                "highest"
            ) else writer.commit.compact_due()
            TableMaintenance(table).after_commit()
            rows = catalog.load_table(name).scan().to_arrow()
            assert by_content(normal_rows(rows)) == by_content(read_rows(table))
        if len(table.schema.fields) == 2:
            alter_table(table, [AddColumn(name="note", data_type=STRING)])
            table = open_file_store_table(
                table.location, SteppingClock(), file_io_options=s3.options
            )
    loaded_table = catalog.load_table(name)
    assert loaded_table.metadata_location.startswith("s3://")
    assert loaded_table.io.properties["s3.access-key-id"] == ACCESS_KEY  # from the catalog
    warehouse = table.location.removesuffix("/shop.db/orders")
    files = {"metastore": "filesystem", "warehouse": warehouse, **s3.options}
    theirs = java.read(NamedTable(catalog=files, database="shop", table="orders"))
    assert by_content(theirs) == by_content(read_rows(table))
