"""Iceberg's runtime for Spark reads rows, history, tags and statistics of our tables by name."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.model.schema.data_type import STRING, parse_columns
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    ChangeType,
    DropColumn,
    RenameColumn,
    SchemaChange,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.publisher import IcebergPublisher
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, new_tag
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.iceberg_spark import (
    IcebergSpark,
    SparkIcebergError,
    why_no_iceberg_in_spark,
)
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.tables.expire_now import expire
from tests.support.tables.small_table import small_table
from tests.testbed.servers.iceberg_rest import IcebergRest

pytestmark = [
    pytest.mark.java,
    pytest.mark.spark,
    pytest.mark.usefixtures("unsynced"),
    pytest.mark.skipif(
        why_no_iceberg_in_spark() is not None, reason=why_no_iceberg_in_spark() or ""
    ),
]
VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
    "num-sorted-run.compaction-trigger": "2",
}
KINDS: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "vectors of version 3": (("dt", "id"), VECTORS),
    "highest level of version 2": (("dt", "id"), {}),
    "append": ((), {}),
}
COLUMNS = (
    "dt DATE NOT NULL, id INT NOT NULL, i INT, f FLOAT, m DECIMAL(9, 2), s STRING, t TIMESTAMP(6), "
    "z TIMESTAMP(6) WITH LOCAL TIME ZONE, b BYTES, k BOOLEAN"
)
ALTERS: tuple[SchemaChange, ...] = (
    AddColumn(name="note", data_type=STRING, comment="of the clerk"),
    RenameColumn("s", "text"),
    ChangeType("i", parse_columns("x BIGINT").types[0]),
    ChangeType("m", parse_columns("x DECIMAL(12, 2)").types[0]),
    DropColumn("b"),
)


@pytest.fixture(scope="module")
def judge() -> Iterator[IcebergSpark]:
    with IcebergSpark() as spark:
        yield spark


@pytest.fixture(scope="module")
def server() -> Iterator[IcebergRest]:
    rest_server = IcebergRest()
    yield rest_server
    rest_server.close()


@dataclass
class JudgedTable:
    """A table that Spark reads beside our own reader.

    Attributes:
        name: of the table in Spark.
        compared_rows: the rows of each snapshot that was compared, by its number.
    """

    judge: IcebergSpark
    name: str
    table: FileStoreTable
    rng: random.Random
    compared_rows: dict[int, list[Row]] = field(default_factory=dict)
    _writer: TableWriter = field(init=False)
    _changes: RandomChanges = field(init=False)

    def __post_init__(self) -> None:
        self.begin_again()

    @property
    def latest_id(self) -> int:
        latest = self.table.snapshots.latest()
        assert latest is not None
        return latest.snapshot_id

    def begin_again(self) -> None:
        """A new process, which sees the latest schema."""
        self.table = open_file_store_table(self.table.location, self.table.clock)
        self._writer = TableWriter(self.table, user=uuid.uuid4().hex)
        has_key = bool(self.table.schema.primary_keys)
        self._changes = RandomChanges(
            self.table.schema, self.rng, key_count=6000 if has_key else 1, deletes=has_key
        )

    def write(self, epochs: int) -> None:
        """Commit inserts, updates and deletes, and let Iceberg's readers see them."""
        has_key = bool(self.table.schema.primary_keys)
        for _ in range(epochs):
            changes = self._changes.epoch(1500 if self._writer.epoch == 0 else 40)
            self._writer.write(
                [change for change in changes if has_key or change[0] in ("+I", "+U")]
            )
        self.compact(whole="deletion-vectors.enabled" not in self.table.schema.options)

    def compact(self, *, whole: bool) -> None:
        """Compact all, or what is due."""
        self._writer.commit.compact_fully() if whole else self._writer.commit.compact_due()
        self.compare()

    def compare(self) -> None:
        """Spark reads the rows that we read, also where it leaves files out by their statistics."""
        rows = self.compared_rows[self.latest_id] = read_rows(self.table)
        assert self.rows() == by_content(rows)
        if not rows:
            return
        key, day = (self.rng.choice(rows)[name] for name in ("id", "dt"))
        assert self.rows(f"WHERE id >= {key} AND dt <= DATE '{day}'") == by_content(
            row for row in rows if row["id"] >= key and row["dt"] <= day
        )
        assert self.rows("WHERE i IS NULL OR k") == by_content(
            row for row in rows if row["i"] is None or row["k"]
        )

    def rows(self, rest: str = "") -> list[str]:
        """Return the rows that Spark reads; `rest` is the rest of the query."""
        return by_content(normal_rows(self.query(f"SELECT * FROM {self.name} {rest}")))

    def query(self, text: str) -> pa.Table:
        return self.judge.rows(text)

    def operations(self) -> dict[int, str]:
        """Return the operations of Iceberg's snapshots by their ascending numbers."""
        query = f"SELECT snapshot_id, operation FROM {self.name}.snapshots ORDER BY 1"
        return {
            snapshot["snapshot_id"]: snapshot["operation"]
            for snapshot in self.query(query).to_pylist()
        }

    def listed(self) -> list[int]:
        """The numbers of Iceberg's snapshots."""
        return list(self.operations())


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def judged_table(
    request: pytest.FixtureRequest, tmp_path: Path, judge: IcebergSpark, seed: int, kind: str
) -> JudgedTable:
    """A new table in a catalog of its own."""
    keys, options = KINDS[kind]
    storage, number, warehouse = request.param, uuid.uuid4().hex[:8], tmp_path / "wh"
    catalog, database = f"lake_{number}", f"shop_{number}"
    chosen = {"metadata.iceberg.storage": storage, "snapshot.num-retained.min": "1", **options}
    name, settings = database, {"type": "hadoop", "warehouse": f"{warehouse}/iceberg"}
    if storage == "table-location":  # folders of databases are those of a hadoop catalog
        name, settings["warehouse"] = f"`{database}.db`", str(warehouse)
    elif storage == "rest-catalog":
        server: IcebergRest = request.getfixturevalue("server")
        settings = {"type": "rest", "uri": server.uri}
        chosen["metadata.iceberg.rest.uri"] = server.uri
    judge.add_catalog(catalog, settings)
    path = warehouse / f"{database}.db" / "orders"
    small = small_table(path, COLUMNS, keys, keys[:1] or ("k",), **chosen)
    return JudgedTable(judge, f"{catalog}.{name}.orders", small.table, random.Random(seed))


@pytest.mark.parametrize(
    ("kind", "judged_table"),
    [
        *((kind, "table-location") for kind in KINDS),
        pytest.param("highest level of version 2", "hadoop-catalog", marks=pytest.mark.variant),
        ("vectors of version 3", "rest-catalog"),
    ],
    indirect=True,
)
def test_spark_s_iceberg_sees_the_whole_life_of_a_table(judged_table: JudgedTable) -> None:
    """Updates, deletes, ALTER, compactions, expiry, tags and a rollback."""
    judged_table.write(epochs=3)
    monday = judged_table.latest_id
    assert create_tag(judged_table.table, new_tag(judged_table.table, "monday", monday))
    alter_table(judged_table.table, ALTERS)
    judged_table.begin_again()
    judged_table.write(epochs=2)
    judged_table.compact(whole=True)
    assert judged_table.rows("VERSION AS OF 'monday'") == by_content(
        judged_table.compared_rows[monday]
    )
    assert judged_table.listed() == list(judged_table.table.snapshots.ids())
    vectors = judged_table.query(
        f"SELECT added_delete_files_count n FROM {judged_table.name}.all_manifests"
    )
    has_vectors = "deletion-vectors.enabled" in judged_table.table.schema.options
    assert (sum(vectors["n"].to_pylist()) > 0) == has_vectors
    assert_appends_only_append(judged_table)

    expire(judged_table.table, num_max=2, num_min=1, retained_ms=0)
    IcebergPublisher(judged_table.table).catch_up()
    assert judged_table.listed() == [monday, *judged_table.table.snapshots.ids()]
    assert judged_table.rows("VERSION AS OF 'monday'") == by_content(
        judged_table.compared_rows[monday]
    )
    judged_table.compare()

    target = judged_table.latest_id
    judged_table.write(epochs=1)
    judged_table.write(epochs=1)
    history = judged_table.query(f"SELECT * FROM {judged_table.name}.history")
    assert history["snapshot_id"].to_pylist()[-1] == judged_table.latest_id
    roll_back(
        judged_table.table,
        plan_rollback(judged_table.table, judged_table.table.snapshots.snapshot(target)),
        resets_consumers=False,
    )
    assert judged_table.rows() == by_content(judged_table.compared_rows[target])
    assert judged_table.operations()[target] != "append"  # its files are listed again
    judged_table.begin_again()
    judged_table.write(epochs=1)
    assert judged_table.listed() == [monday, *judged_table.table.snapshots.ids()]
    references = judged_table.query(
        f"SELECT name, snapshot_id FROM {judged_table.name}.refs"
    ).to_pylist()
    assert {ref["name"]: ref["snapshot_id"] for ref in references} == {
        "main": judged_table.latest_id,
        "monday": monday,
    }
    assert_appends_only_append(judged_table)


def assert_appends_only_append(judged_table: JudgedTable) -> None:
    """A snapshot of the operation "append" brings no deletion vectors, and drops no files.

    Readers of new rows alone, such as Spark's streams, take all files of such a snapshot for new.
    """
    wrong = judged_table.query(
        f"SELECT s.snapshot_id FROM {judged_table.name}.snapshots s "
        f"JOIN {judged_table.name}.all_manifests m ON m.added_snapshot_id = s.snapshot_id "
        "WHERE s.operation = 'append' "
        "AND (m.deleted_data_files_count > 0 OR m.added_delete_files_count > 0)"
    )
    assert wrong["snapshot_id"].to_pylist() == []


@pytest.mark.parametrize(("kind", "judged_table"), [("append", "table-location")], indirect=True)
def test_spark_deletes_no_files_of_ours(judged_table: JudgedTable) -> None:
    judged_table.write(epochs=2)
    catalog, _, table = judged_table.name.partition(".")
    for procedure in (
        f"expire_snapshots(table => '{table}', older_than => TIMESTAMP '2100-01-01 00:00:00')",
        f"remove_orphan_files(table => '{table}')",
    ):
        with pytest.raises(SparkIcebergError, match="GC is disabled"):
            judged_table.query(f"CALL {catalog}.system.{procedure}")
    judged_table.compare()


@pytest.mark.parametrize(
    ("kind", "judged_table"),
    [("vectors of version 3", "rest-catalog")],
    indirect=True,
)
def test_our_next_commit_replaces_what_spark_wrote(judged_table: JudgedTable) -> None:
    """Spark's commits have raised the catalog's numbers, by which it might refuse all of ours."""
    judged_table.write(epochs=1)
    columns = judged_table.query(f"SELECT * FROM {judged_table.name}").column_names
    for _ in range(2):
        judged_table.query(
            f"INSERT INTO {judged_table.name} SELECT * FROM {judged_table.name} LIMIT 3"
        )
        judged_table.query(f"DELETE FROM {judged_table.name} WHERE id > 0")
        judged_table.query(
            f"ALTER TABLE {judged_table.name} ADD COLUMN theirs_{judged_table.latest_id} INT"
        )
        judged_table.write(epochs=1)
        assert judged_table.rows() == by_content(read_rows(judged_table.table))
    judged_table.compact(whole=True)
    assert judged_table.query(f"SELECT * FROM {judged_table.name}").column_names == columns
