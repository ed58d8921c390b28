"""Tables that a catalog of Iceberg knows by name, whichever catalog it is."""

from __future__ import annotations

import random
import socket
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyiceberg.table import Table

from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.metadata_pointer import PointedTable, name_in_catalog
from stream_app.table.job.table_maintenance import TableMaintenance
from tests.support.histories.random_changes import RandomChanges
from tests.support.jobs.table_writer import TableWriter, by_content, read_rows
from tests.support.judges.normal_rows import normal_rows
from tests.support.tables.small_table import SmallTable, small_table

VECTORS = {
    "deletion-vectors.enabled": "true",
    "deletion-vectors.bitmap64": "true",
    "metadata.iceberg.format-version": "3",
}
OpenPointer = Callable[[FileStoreTable, IcebergFiles], PointedTable]


class TableFinder(Protocol):
    """A finder of Iceberg's tables by their names, as each catalog of PyIceberg is one."""

    def load_table(self, identifier: str, /) -> Table: ...


def catalog_table(
    folder: Path, columns: str, keys: Sequence[str], options: Mapping[str, str]
) -> SmallTable:
    """Create a table ``orders`` in a database of its own."""
    database = f"shop_{uuid.uuid4().hex[:8]}"
    return small_table(folder / "wh" / f"{database}.db" / "orders", columns, keys, (), **options)


def rows_in(catalog: TableFinder, table: SmallTable) -> pa.Table:
    """Return the rows that PyIceberg reads of the table by its name."""
    rows: pa.Table = catalog.load_table(".".join(name_in_catalog(table.table))).scan().to_arrow()
    return rows


def assert_same(catalog: TableFinder, table: SmallTable) -> None:
    """Check that PyIceberg reads by name what we read by path."""
    rows = normal_rows(rows_in(catalog, table))
    assert by_content(rows) == by_content(read_rows(table.table))


def assert_same_after_each_epoch(catalog: TableFinder, table: SmallTable, seed: int) -> None:
    """Check random epochs of a table with a key, while its old versions expire."""
    rng, writer = random.Random(seed), TableWriter(table.table)
    upkeep = TableMaintenance(table.table)
    changes = RandomChanges(table.table.schema, rng, key_count=200)
    for _ in range(8):
        writer.write(changes.epoch(rng.randrange(1, 120)))
        writer.commit.compact_due()
        upkeep.after_commit()
        assert_same(catalog, table)


def assert_a_late_writer_fails(table: SmallTable, open_pointer: OpenPointer) -> None:
    """Bring the pointer up to the older version after the newer one, and check that it stays."""
    table.commit(("+I", {"id": 1}))
    files = IcebergFiles.of_table(table.table.file_io, table.path, table.table.options)
    older = files.read_version(1)
    assert older is not None
    late = open_pointer(table.table, files)
    table.commit(("+I", {"id": 2}))
    late.bring_up_to(older)
    assert not late.store.move(files.version_path(1), late.version(older))


@contextmanager
def silent_port() -> Iterator[int]:
    """Run a server that accepts connections and never answers; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def commits_within(table: SmallTable, seconds: float) -> bool:
    """Return whether a commit of one row ends in time."""
    row = ("+I", {"id": 1})
    committing = threading.Thread(target=table.commit, args=(row,), daemon=True)
    committing.start()
    committing.join(seconds)
    return not committing.is_alive()
