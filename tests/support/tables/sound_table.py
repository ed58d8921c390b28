"""What `stream-app check` finds in a table."""

from __future__ import annotations

from stream_app.model.finding import Finding, FindingKind
from stream_app.table.check.table_check import CheckReport, TableCheck
from stream_app.table.file_store_table import FileStoreTable


def findings_of(table: FileStoreTable, *, quick: bool = False) -> list[Finding]:
    """Return all findings of a check."""
    return list(_check(table, quick=quick).findings())


def kinds_in(table: FileStoreTable, *, quick: bool = False) -> set[FindingKind]:
    """Return the kinds of the findings, each of which tells how to fix it.

    Nothing is wrong with rows that wait for a compaction.
    """
    findings = findings_of(table, quick=quick)
    assert all(finding.fix and finding.where for finding in findings)
    return {finding.kind for finding in findings} - {FindingKind.WAITING_ROWS}


def sound_report(table: FileStoreTable) -> CheckReport:
    """Return what a check without findings looked at; rows may wait for a compaction."""
    check = _check(table, quick=False)
    assert [
        finding for finding in check.findings() if finding.kind is not FindingKind.WAITING_ROWS
    ] == []
    return check.report


def unchecked_rows(table: FileStoreTable) -> str:
    """Return why `check` did not check the rows of a table whose metadata is sound."""
    [finding] = _check(table, quick=False).findings()
    assert finding.kind is FindingKind.NOT_COMPARED
    return finding.problem


def _check(table: FileStoreTable, *, quick: bool) -> TableCheck:
    return TableCheck(table, quick, lambda *_: None)
