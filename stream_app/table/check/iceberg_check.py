"""Checks whether Iceberg's readers find a table's latest snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.errors import StreamAppError
from stream_app.model.finding import Finding, FindingKind
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.reader_lag import LAG_FIX, reader_lag
from stream_app.table.storage_errors import storage_errors


def iceberg_findings(table: FileStoreTable) -> Iterator[Finding]:
    """Yield a finding if Iceberg's readers lag behind, or if their catalog does not answer."""
    try:
        with storage_errors(table.location):
            lag = reader_lag(table)
    except StreamAppError as error:
        yield Finding(
            kind=FindingKind.ICEBERG,
            problem=f"the snapshot that Iceberg's readers see was not checked: {error.problem}",
            where=error.where or table.location,
            fix=error.fix,
        )
    else:
        if lag is not None and lag.is_behind:
            yield Finding(
                kind=FindingKind.ICEBERG, problem=lag.text, where=table.location, fix=LAG_FIX
            )
