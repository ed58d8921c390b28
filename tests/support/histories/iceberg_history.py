"""Random histories of tables that Iceberg's readers follow.

`IcebergHistory.step` does something to the table, and `differences` lists what PyIceberg sees
wrongly. It must see the rows of our own reader, or those at the last full compaction for a table
without deletion vectors. An older snapshot must show what it showed when it was the latest one.
PyIceberg finds the table by the file of its version, or by its name in a REST catalog.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table

from stream_app.errors import UsageError
from stream_app.format.binary_row import deserialize_row
from stream_app.model.schema.data_type import STRING, DataField, parse_columns
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.schema.schema_changes import (
    AddColumn,
    ChangeType,
    DropColumn,
    RenameColumn,
    SchemaChange,
)
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.publisher import IcebergPublisher
from stream_app.table.job.table_maintenance import TableMaintenance
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import alter_table
from stream_app.table.upkeep.rollback import plan_rollback, roll_back
from stream_app.table.upkeep.tags import create_tag, delete_tags, new_tag, plan_tag_deletion
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.judges.iceberg_reader import IcebergReader
from tests.support.judges.normal_rows import Row, normal_rows
from tests.support.tables.catalog_table import VECTORS
from tests.support.tables.small_table import SmallTable, small_table

KINDS: dict[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "append": ((), {"bucket": "-1"}),
    "vectors": (("pt", "id"), {**VECTORS, "num-sorted-run.compaction-trigger": "3"}),
    "highest-level": (("pt", "id"), {"num-sorted-run.compaction-trigger": "100"}),
}
"""Without vectors only a full compaction changes the highest level here."""
_COLUMNS = (
    "pt STRING NOT NULL, id INT NOT NULL, i INT, f FLOAT, m DECIMAL(9, 2), s STRING, "
    "t TIMESTAMP(6), b BYTES"
)
_UPKEEP = {
    "snapshot.num-retained.min": "3",
    "snapshot.num-retained.max": "8",
    "metadata.iceberg.compaction.max.file-num": "12",
}
_WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL(9, 2)": "DECIMAL(12, 2)"}


@dataclass
class IcebergHistory:
    """One table's history.

    Attributes:
        rest_uri: of an Iceberg REST catalog that gets each version; None: there is none.
        visible_rows: rows that Iceberg's readers must see in a snapshot, by its number.
        steps: names of what has happened.
    """

    folder: Path
    iceberg: IcebergReader
    kind: str
    rng: random.Random
    rest_uri: str | None = None
    visible_rows: dict[int, list[str]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    _small: SmallTable = field(init=False)
    _changes: RandomChanges = field(init=False)
    _compacted_rows: list[Row] = field(default_factory=list)
    _compacted_at: dict[int, list[Row]] = field(default_factory=dict)
    _lost: set[int] = field(default_factory=set)
    _number: int = 0

    def __post_init__(self) -> None:
        keys, options = KINDS[self.kind]
        path = self.folder / "wh" / f"shop_{uuid.uuid4().hex[:8]}.db" / "orders"
        place = {"metadata.iceberg.storage": "table-location"}
        if self.rest_uri is not None:
            place["metadata.iceberg.storage"] = "rest-catalog"
            place["metadata.iceberg.rest.uri"] = self.rest_uri
        self._small = small_table(path, _COLUMNS, keys, ("pt",), **{**_UPKEEP, **place, **options})
        self._begin_again(epoch=0)

    @property
    def table(self) -> FileStoreTable:
        """The table with its latest schema."""
        return self._small.table

    def step(self) -> None:
        """Something happens to the table."""
        self._number += 1
        works: dict[Callable[[], None], int] = {
            self._write: 12,
            self._compact: 3,
            self._compact_fully: 3,
            self._expire: 3,
            self._alter: 2,
            self._tag: 1,
            self._untag: 1,
            self._drop_partition: 1,
            self._truncate: 1 if self._number % 5 == 0 else 0,
            self._roll_back: 1,
            self._lose_metadata: 1,
            self._restart: 1,
        }
        [work] = self.rng.choices(list(works), list(works.values()))
        self.steps.append(work.__name__)
        before = self._newest()
        work()
        if self._newest() != before:
            self._note()

    # -------------------------------------------------------------- what happens

    def _write(self) -> None:
        changes = self._changes.epoch(self.rng.randrange(1, 40))
        if self.kind == "append":
            changes = [change for change in changes if change[0] in ("+I", "+U")]
        self._small.commit(*changes)

    def _compact(self) -> None:
        if self.kind != "highest-level":  # where it could compact single buckets whole
            self._small.compact()

    def _compact_fully(self) -> None:
        if self._small.committer.last_identifier is None:
            return
        self._small.committer.compact_fully()
        self._compacted_rows = read_rows(self.table)

    def _expire(self) -> None:
        TableMaintenance(self.table).after_commit()

    def _alter(self) -> None:
        columns = [column for column in self.table.schema.fields if column.name not in ("pt", "id")]
        change = self._change(self.rng.choice(columns))
        alter_table(self.table, [change])
        self._compacted_rows = [_altered(row, change) for row in self._compacted_rows]
        self._begin_again(self._small.epoch)
        self._write()  # readers see a schema with its first snapshot

    def _change(self, column: DataField) -> SchemaChange:
        kind = self.rng.choice(["add", "rename", "drop", "widen"])
        wider = _WIDER.get(str(column.data_type.as_nullable()))
        if kind == "widen" and wider is not None:
            return ChangeType(column.name, parse_columns(f"x {wider}").types[0])
        if kind == "rename":
            return RenameColumn(column.name, f"c{self._number}")
        if kind == "drop" and len(self.table.schema.fields) > 5:
            return DropColumn(column.name)
        return AddColumn(name=f"n{self._number}", data_type=STRING)

    def _tag(self) -> None:
        if newest := self.table.snapshots.latest():
            create_tag(self.table, new_tag(self.table, f"t{self._number}", newest.snapshot_id))

    def _untag(self) -> None:
        names = [tag.name for tag in self.table.tags.tags()]
        if names:
            delete_tags(self.table, plan_tag_deletion(self.table, [self.rng.choice(names)]))

    def _drop_partition(self) -> None:
        latest = self.table.snapshots.latest()
        if latest is None:
            return
        entries = list(FileStoreScan(self.table).live(latest))
        if not entries:
            return
        partition = self.rng.choice(entries).partition
        self._batch().drop_partitions([partition], BATCH_COMMIT_IDENTIFIER)
        [name] = deserialize_row(partition, self.table.schema.partition_type.types)
        self._compacted_rows = [row for row in self._compacted_rows if row["pt"] != name]
        self._begin_again(self._small.epoch)

    def _truncate(self) -> None:
        self._batch().truncate(BATCH_COMMIT_IDENTIFIER)
        self._compacted_rows = []
        self._begin_again(self._small.epoch)

    def _roll_back(self) -> None:
        numbers = [number for number in self.table.snapshots.ids() if number in self.visible_rows]
        if not numbers:
            return
        target = self.table.snapshots.snapshot(self.rng.choice(numbers))
        if target.schema_id != self.table.schema.schema_id:
            return  # its rows have the columns of the latest schema to our reader
        try:
            plan = plan_rollback(self.table, target)
        except UsageError:
            return
        roll_back(self.table, plan, resets_consumers=True)
        self._compacted_rows = self._compacted_at.get(target.snapshot_id, [])
        self.visible_rows = {
            n: rows for n, rows in self.visible_rows.items() if n <= target.snapshot_id
        }
        self._begin_again(self._small.epoch)

    def _lose_metadata(self) -> None:
        """Delete metadata files, as a crash between both commits or a user may do."""
        folder = self._metadata
        hint, versions = folder / "version-hint.text", sorted(folder.glob("v*.metadata.json"))
        self._lost |= self.visible_rows.keys()
        for path in self.rng.choice([[hint], [hint, *versions], list(folder.glob("*"))]):
            path.unlink(missing_ok=True)
        self._begin_again(self._small.epoch)  # a process knows what it has published
        self._truncate()

    def _restart(self) -> None:
        self._begin_again(self._small.epoch)

    # ---------------------------------------------------------- what must be seen

    @property
    def _metadata(self) -> Path:
        return Path(IcebergPublisher(self.table).iceberg_files.folder)

    @property
    def _in_catalog(self) -> Table:
        catalog = load_catalog("reader", type="rest", uri=self.rest_uri)
        return catalog.load_table(self.table.label)

    def _rows(self, snapshot: int | None = None) -> pa.Table:
        """Return the rows by PyIceberg."""
        if self.rest_uri is None:
            return self.iceberg.read(self._metadata, snapshot=snapshot)
        return self._in_catalog.scan(snapshot_id=snapshot).to_arrow()

    def _listed(self) -> list[int]:
        """Return the snapshots that PyIceberg lists."""
        if self.rest_uri is None:
            snapshot_ids: list[int] = self.iceberg.describe(self._metadata)["snapshots"]
            return snapshot_ids
        return [snapshot.snapshot_id for snapshot in self._in_catalog.metadata.snapshots]

    def _begin_again(self, epoch: int) -> None:
        """A new process, which sees the latest schema."""
        self._small = SmallTable(
            open_file_store_table(self._small.path, self._small.table.clock), epoch=epoch
        )
        self._changes = RandomChanges(self.table.schema, self.rng, key_count=60, partitions=3)
        if self.kind == "append":
            self._changes = RandomChanges(self.table.schema, self.rng, key_count=1, deletes=False)

    def _batch(self) -> FileStoreCommit:
        latest = self.table.snapshots.latest()
        return FileStoreCommit(self.table, CommitHistory(self.table, "batch", latest))

    def _newest(self) -> int | None:
        latest = self.table.snapshots.latest()
        return None if latest is None else latest.snapshot_id

    def _note(self) -> None:
        newest = self._newest()
        assert newest is not None
        is_late = self.kind == "highest-level"
        self._compacted_at[newest] = self._compacted_rows
        self.visible_rows[newest] = by_content(
            self._compacted_rows if is_late else read_rows(self.table)
        )

    def differences(self) -> list[str]:
        """Return what Iceberg's readers see wrongly, in older versions only after ten steps."""
        newest = self._newest()
        if newest is None or newest not in self.visible_rows:
            return []
        differences = self._differences(newest, self._rows())
        if self._number % 10 == 0:
            differences += self._differences(newest, self.iceberg.read_by_duckdb(self._metadata))
            required_ids = {*self.table.snapshots.ids()}
            required_ids |= {tag.snapshot.snapshot_id for tag in self.table.tags.tags()}
            listed_ids = {*self._listed()}
            if missing := (required_ids & self.visible_rows.keys()) - self._lost - listed_ids:
                differences.append(f"snapshots {sorted(missing)} are not listed")
            older = self.rng.choice(sorted(required_ids & listed_ids & {*self.visible_rows}))
            differences += self._differences(older, self._rows(older))
        return differences

    def _differences(self, snapshot: int, rows: pa.Table) -> list[str]:
        shown = Counter(by_content(normal_rows(rows)))
        expected = Counter(self.visible_rows[snapshot])
        if shown == expected:
            return []
        return [
            f"snapshot {snapshot} after {self.steps[-12:]}: {len(shown - expected)} rows too many, "
            f"such as {list(shown - expected)[:1]}; {len(expected - shown)} are missing, such as "
            f"{list(expected - shown)[:1]}"
        ]


def _altered(row: Row, change: SchemaChange) -> Row:
    """Return a row as readers of the newer schema see it; values are equal in a wider type."""
    if isinstance(change, AddColumn):
        return {**row, change.name: None}
    if isinstance(change, RenameColumn):
        return {change.new_name if name == change.name else name: v for name, v in row.items()}
    if isinstance(change, DropColumn):
        return {name: value for name, value in row.items() if name != change.name}
    return row
