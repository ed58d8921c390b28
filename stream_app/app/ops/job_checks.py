"""Checks the tables of a job, so that the error of one table does not stop the others.

An error of a table becomes a finding about it, and `check` prints the findings. A
`ComparedTableCheck` reads a table's files, and compares its rows with its topics. A
`DatabaseComparison` compares a table's rows with a database by checksums alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.table_config import TableConfig
from stream_app.app.opening.job_catalog import open_job_table
from stream_app.app.ops.recorded_tables import recorded_splitter, source_filter_of
from stream_app.app.ops.source_comparison.database_side import SummedDatabase
from stream_app.app.ops.source_comparison.source_table_finder import SourceTableFinder
from stream_app.app.ops.source_comparison.sum_sides import SumSides, database_sides
from stream_app.app.ops.source_comparison.topic_comparison import ComparedTable, Comparison
from stream_app.errors import CorruptFileError, StreamAppError
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.source.origin import Origin
from stream_app.table.analyze.recorded_proof import record_proof
from stream_app.table.check.metadata_check import Progress
from stream_app.table.check.table_check import CheckReport, TableCheck
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import require_writable
from stream_app.table.upkeep.upkeep_refusals import check_versions_known
from stream_app.table.versions.read_refusals import check_readable


@dataclass(slots=True, kw_only=True)
class ComparedTableCheck:
    """A check of a table, and its comparison with its topics.

    Attributes:
        path: the table's folder.
        table: the table; None if `error` prevented opening it.
        compared_table: the comparison; None if the user requested none, or `error` prevented it.
        error: the error before the check; None without one.
        report: the extent of the check, which grows while the caller iterates over `findings`.
    """

    path: str
    table: FileStoreTable | None = None
    compared_table: ComparedTable | None = None
    error: StreamAppError | None = None
    report: CheckReport = field(init=False, default_factory=CheckReport)

    def findings(self, *, is_quick: bool, progress: Progress) -> Iterator[Finding]:
        """Yield the findings of the table's files, then those of the comparison."""
        if self.table is None:
            if self.error is not None:
                yield opening_finding(self.path, self.error)
            return
        yield from TableCheck(self.table, is_quick, progress, self.report).findings()
        if self.error is not None:
            yield _omission_finding(self.table.location, self.error)
        elif self.compared_table is not None:
            yield from self.compared_table.findings(self.report)


def compared_table_checks(
    job_tables: JobTables,
    paths: Iterable[str],
    comparison: Comparison,
    topics_of: Callable[[FileStoreTable], tuple[SourceConfig, TableConfig]],
) -> Sequence[ComparedTableCheck]:
    """Open the tables in these folders, read their topics once for all, and return the checks.

    Args:
        topics_of: returns a table's topics, and the settings for decoding their messages.

    Raises:
        SourceError: the broker does not respond.
        UsageError: as `recorded_splitter`.
    """
    source_filter = source_filter_of(job_tables)
    checks = list[ComparedTableCheck]()
    for path in paths:
        table_check = ComparedTableCheck(path=path)
        checks.append(table_check)
        try:
            table_check.table = table = open_job_table(job_tables, path)
            check_versions_known(table)
            source_config, table_config = topics_of(table)
            table_check.compared_table = comparison.add(
                table, source_config, table_config, source_filter
            )
        except StreamAppError as error:
            table_check.error = error
    compared_tables = [check.table for check in checks if check.table and check.compared_table]
    comparison.read(recorded_splitter(job_tables, *compared_tables))
    return checks


@dataclass(slots=True, kw_only=True)
class DatabaseComparison:
    """A comparison of a job's table with a database by checksums.

    Attributes:
        path: the table's folder.
        wait_s: how long to wait until the table has changes that the database has already.
        is_foreign: whether the table's rows come from another database, so nothing is compared.
        equal_text: the source and the checksum; empty if a compared column differs. `findings` sets
            this and `is_foreign`.
    """

    job_tables: JobTables
    path: str
    finder: SourceTableFinder
    database: SummedDatabase
    wait_s: float
    is_foreign: bool = field(init=False, default=False)
    equal_text: str = field(init=False, default="")

    def findings(self, *, records_proof: bool) -> Iterator[Finding]:
        """Yield the findings; an error is one of them.

        Args:
            records_proof: whether to record in the table that it is equal to the source.
        """
        try:
            table = open_job_table(self.job_tables, self.path)
            check_readable(table, merges_rows=True)
            summed_source = self.finder.source_of(table)
            self.is_foreign = summed_source is None
            if summed_source is not None:
                sides = database_sides(table, self.database, summed_source, self.wait_s)
                yield from sides.compare()
                self.equal_text = finish_comparison(table, sides, records_proof=records_proof)
        except StreamAppError as error:
            yield opening_finding(self.path, error)


def finish_comparison(table: FileStoreTable, sides: SumSides, *, records_proof: bool) -> str:
    """Return a text that both sides are equal, and record it on request; empty if they differ.

    Raises:
        StreamAppError: the proof cannot be recorded.
    """
    if sides.equal is None:
        return ""
    if records_proof:
        record_proof(require_writable(table), *sides.equal, sides.left_out_columns)
    return "equal to {}: {}{}".format(*sides.equal, sides.omission_text)


def opening_finding(path: str, error: StreamAppError) -> Finding:
    """Return the finding about a table that cannot be opened, or compared with its source."""
    if isinstance(error, CorruptFileError):
        problem = f"the table cannot be opened: {error.problem}"
        where = error.where or path
        return Finding(kind=FindingKind.SCHEMA, problem=problem, where=where, fix=error.fix)
    return _omission_finding(path, error)


def refusal_finding(origin: Origin, reason: str) -> Finding:
    """Return the finding about a source table that the job does not store."""
    return Finding(
        kind=FindingKind.NOT_COMPARED,
        problem=f"nothing of {origin} is stored, its messages are in quarantine: {reason}",
        where="stream.quarantine",
        fix="remove this cause, and replay the records (stream-app quarantine replay)",
    )


def _omission_finding(where: str, error: StreamAppError) -> Finding:
    problem = f"the table was not compared with its source: {error.problem}"
    return Finding(kind=FindingKind.NOT_COMPARED, problem=problem, where=where, fix=error.fix)
