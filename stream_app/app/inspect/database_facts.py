"""Finds a job's latest database snapshot, and why there is no newer one, for ``status``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.checkpoint.border_log import BorderLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.clock import utc_text
from stream_app.model.database_snapshot import DatabaseSnapshot
from stream_app.table.api.paimon_database import open_database


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The database snapshots of a job.

    Attributes:
        latest_snapshot: the latest database snapshot whose table snapshots all exist, or None.
        count: the number of readable database snapshots.
        doubt: why the newest epoch has no database snapshot; empty if it has one, or if no
            transaction ended in it.
    """

    latest_snapshot: DatabaseSnapshot | None
    count: int = 0
    doubt: str = ""

    def line(self) -> str:
        """Return the facts as one line of text."""
        doubt_text = f"; the newest epoch has none: {self.doubt}" if self.doubt else ""
        if self.latest_snapshot is None:
            return f"no database snapshot{doubt_text}"
        sources_text = ", ".join(
            f"transaction {source.transaction} of {name} ({utc_text(source.time_ms)})"
            for name, source in sorted(self.latest_snapshot.sources.items())
        )
        omissions_text = ", ".join(
            f"{name} ({reason})" for name, reason in sorted(self.latest_snapshot.left_out.items())
        )
        omission_text = f", without {omissions_text}" if omissions_text else ""
        return (
            f"latest of {self.count} database snapshots: {sources_text}, "
            f"tables {len(self.latest_snapshot.tables)}{omission_text}{doubt_text}"
        )

    def document(self) -> dict[str, Any]:
        """Return the facts as a JSON document."""
        latest_document = None if self.latest_snapshot is None else self.latest_snapshot.document()
        return {
            "database_snapshot": latest_document,
            "kept": self.count,
            "doubt": self.doubt or None,
        }


def database_facts(job_tables: JobTables, checkpoint: JobFolder) -> DatabaseFacts | None:
    """Return the database snapshots of a job, or None if it records none.

    Raises:
        CheckpointError, CorruptFileError: a file is damaged.
        StorageError: the warehouse cannot be accessed.
    """
    if not job_tables.keeps_transactions:
        return None
    snapshots = open_database(
        job_tables.location, file_io_options=job_tables.file_system
    ).snapshots()
    border = BorderLog(checkpoint).border(state_or_empty(checkpoint).epoch)
    doubt = "" if border is None or border.doubt is None else border.doubt.reason
    return DatabaseFacts(
        latest_snapshot=snapshots[-1] if snapshots else None, count=len(snapshots), doubt=doubt
    )
