"""Measures how far Iceberg's readers lag behind a table, by its catalog or metadata files."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.filestore.iceberg_files import IcebergFiles
from stream_app.model.options.iceberg_options import DISABLED, METADATA_ICEBERG_STORAGE
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
        latest_age_ms: the age of the table's latest snapshot.
    """

    where: str
    snapshot_id: int | None
    latest_id: int
    latest_age_ms: int

    @property
    def is_behind(self) -> bool:
        """Whether readers have lagged behind for longer than a moment."""
        return self.snapshot_id != self.latest_id and self.latest_age_ms > _PUBLICATION_MS

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
    latest_age_ms = max(0, table.clock.now_ms() - latest_snapshot.time_ms)
    return ReaderLag(
        where=where,
        snapshot_id=snapshot_id,
        latest_id=latest_snapshot.snapshot_id,
        latest_age_ms=latest_age_ms,
    )
