"""Prints the findings and the extent of a check, and chooses its exit code."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping

import orjson

from stream_app.app.text.listing import count_text
from stream_app.app.text.progress import ProgressLine
from stream_app.checkpoint.job_state import JobWarning
from stream_app.errors import FAILED, NOT_COMPARED
from stream_app.model.finding import Finding, FindingKind
from stream_app.table.check.table_check import CheckReport

_NOTHING_WRONG = {FindingKind.NOT_COMPARED, FindingKind.WAITING_ROWS, FindingKind.ICEBERG}


def summary_of(kinds_by_table: Mapping[str, Collection[FindingKind]]) -> str:
    """Summarise the findings of many tables in one line."""
    names_by_code: dict[int, list[str]] = {}
    for name, kinds in kinds_by_table.items():
        names_by_code.setdefault(exit_code(kinds), []).append(name)
    words = {FAILED: "findings in", NOT_COMPARED: "not all was compared in"}
    parts = [
        f"{word} {', '.join(names_by_code[code])}"
        for code, word in words.items()
        if code in names_by_code
    ]
    if 0 in names_by_code:
        sound_text = f" in {len(names_by_code[0])}" if parts else ""
        parts.append(f"nothing is wrong{sound_text}")
    return f"{count_text(len(kinds_by_table), 'table')}: {'; '.join(parts)}"


def exit_code(kinds: Collection[FindingKind]) -> int:
    """Return 0 without findings, 3 if none of them says that something is wrong, else 1."""
    if not kinds:
        return 0
    return NOT_COMPARED if set(kinds) <= _NOTHING_WRONG else FAILED


def print_findings(
    findings: Iterable[Finding],
    location: str,
    args: argparse.Namespace,
    progress: ProgressLine,
    *,
    heading: str = "",
) -> list[FindingKind]:
    """Print findings as they arrive, with a heading before the first; return their kinds."""
    kinds = []
    for finding in findings:
        kinds.append(finding.kind)
        progress.clear()
        where = finding.where.removeprefix(f"{location}/")
        if args.format == "jsonl":
            document = {"kind": finding.kind.value, "what": finding.problem, "where": where}
            if finding.needed_by:
                document["needed_by"] = finding.needed_by
            document["fix"] = finding.fix
            print(orjson.dumps(document).decode(), flush=True)
        else:
            if heading and len(kinds) == 1:
                print(heading)
            print(f"{finding.kind.value}: {finding.problem}\n  where: {where}")
            if finding.needed_by:
                print(f"  needed by: {finding.needed_by}")
            print(f"  to fix: {finding.fix}", flush=True)
    progress.clear()
    return kinds


def result_lines(report: CheckReport, count: int) -> list[str]:
    """Return the lines of the result."""
    lines = [count_text(count, "finding") if count else "nothing is wrong"]
    if report.damaged_versions and count > 1:
        lines.append(f"damaged: {report.damaged_versions}\n  to fix: {report.fix}")
    return lines


def detail_lines(report: CheckReport, *, is_quick: bool) -> list[str]:
    """Return the lines about the extent of the check."""
    extent_text = count_text(report.version_count, "version")
    if report.branch_count:
        extent_text += f" of the table and {report.branch_count} of its branches"
    extent_text += "" if is_quick else f", {report.file_count} files with {report.row_count} rows"
    lines = [f"checked: {extent_text}" + (" (metadata alone)" if is_quick else "")]
    lines += [f"replayed: {text}" for text in report.replayed_changes]
    lines += [f"not checked: {text}" for text in report.unchecked_parts]
    if report.unread_files:
        lines.append(
            f"not checked: {len(report.unread_files)} files, such as {report.unread_files[0]}"
        )
    return lines


def print_warnings(
    args: argparse.Namespace, warnings: Iterable[JobWarning], label: str | None = None
) -> None:
    """Print a job's warnings; with `label`, only this table's and the whole job's."""
    for warning in warnings:
        if label is not None and warning.table not in ("", label):
            continue
        fields = {"kind": "warning", "what": warning.problem, "where": warning.table}
        in_json = orjson.dumps({**fields, "fix": warning.fix}).decode()
        print(f"warning: {warning}" if args.format == "text" else in_json)
