"""Makes the committer of commands and Python programs, which runs beside a table's jobs."""

from __future__ import annotations

import uuid

from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable

ANALYSIS = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER)
"""A commit that belongs to no stream, and changes no row."""


def batch_commit(table: FileStoreTable) -> FileStoreCommit:
    """Return a committer with a fresh commit user; its commits have `BATCH_COMMIT_IDENTIFIER`."""
    commit_history = CommitHistory(table, str(uuid.uuid4()), table.snapshots.latest())
    return FileStoreCommit(table, commit_history)
