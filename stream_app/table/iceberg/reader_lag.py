"""Measures how far Iceberg's readers lag behind a table, by its catalog or metadata files."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.options.iceberg_options import DISABLED, METADATA_ICEBERG_STORAGE
from stream_app.model.snapshot import Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.published_catalog import PublishedCatalog, catalog_kind

_PUBLICATION_MS = 60_000
"""The time that a job may take to publish a snapshot that it has committed."""
LAG_FIX = (
    "let a job commit, or wait for its next look, which publishes everything since; if this lasts, "
    "see the job's log"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderLag:
    """The lag of Iceberg's readers behind a table.

    Attributes:
        where: the catalog or folder in which readers look the table up.
        snapshot_id: the latest snapshot that readers see; None if they see none.
        latest_id: the table's latest snapshot.
        lag_ms: the age of the first snapshot that readers do not see; 0 if they see the latest.
    """

    where: str
    snapshot_id: int | None
    latest_id: int
    lag_ms: int

    @property
    def is_behind(self) -> bool:
        """Whether readers have lagged behind for longer than a moment."""
        return self.lag_ms > _PUBLICATION_MS

    @property
    def text(self) -> str:
        """A clause that says which snapshot Iceberg's readers see."""
        published_text = (
            "no snapshot" if self.snapshot_id is None else f"snapshot {self.snapshot_id}"
        )
        table_text = f"the table has snapshot {self.latest_id}"
        return f"{self.where} has {published_text}" + (
            f", and {table_text}" if self.is_behind else ""
        )


def reader_lag(table: FileStoreTable) -> ReaderLag | None:
    """Measure the lag; None if the table is not published or has no snapshot.

    Raises:
        UnsupportedTableError: a library or a setting is missing.
        StreamAppError, OSError: the catalog does not answer, or has another table of the name.
        CorruptFileError: the latest version cannot be read.
    """
    latest_snapshot = table.snapshots.latest()
    if table.options[METADATA_ICEBERG_STORAGE] == DISABLED or latest_snapshot is None:
        return None
    iceberg_files = IcebergFiles.of_table(table.file_io, table.location, table.options)
    if catalog_kind(table.options) is not None:
        where = "the Iceberg catalog"
        state = PublishedCatalog(table, iceberg_files).state()
        snapshot_id = None if state is None else state.snapshot_id
    else:
        where = "Iceberg's metadata"
        version = iceberg_files.latest_version()
        metadata = None if version is None else iceberg_files.read_version(version)
        snapshot_id = None if metadata is None else metadata.current_snapshot.snapshot_id
    return ReaderLag(
        where=where,
        snapshot_id=snapshot_id,
        latest_id=latest_snapshot.snapshot_id,
        lag_ms=_lag_ms(table, snapshot_id, latest_snapshot),
    )


def _lag_ms(table: FileStoreTable, seen_id: int | None, latest_snapshot: Snapshot) -> int:
    """Return the age of the first snapshot that readers do not see; 0 if they see the latest.

    The age of the latest snapshot does not tell: it is small in a table that commits all the time.
    """
    if seen_id == latest_snapshot.snapshot_id:
        return 0
    unseen_snapshot = latest_snapshot
    with suppress(FileNotFoundError):  # it expired, or the table was rolled back behind it
        earliest_id = table.snapshots.earliest_id() or 0
        unseen_snapshot = table.snapshots.snapshot(max((seen_id or 0) + 1, earliest_id))
    return max(0, table.clock.now_ms() - unseen_snapshot.time_ms)
