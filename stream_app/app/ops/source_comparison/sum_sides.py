"""Compares a table by checksums with a database, another table or a tag, for `check --source`.

This module creates the sides and describes the outcome, and `compared_sums` compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from stream_app.app.ops.source_comparison.compared_sums import (
    SumComparison,
    SummedSide,
    compare_sums,
)
from stream_app.app.ops.source_comparison.database_side import (
    SummedDatabase,
    SummedSource,
    database_side,
)
from stream_app.app.ops.source_comparison.table_side import TableSide, both_sides, newest_side
from stream_app.format.row_hash.row_texts import readable_texts
from stream_app.model.finding import Finding, FindingKind
from stream_app.model.first_texts import first_texts
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.time_travel import Version

JDBC, TAG = "jdbc:", "tag:"
_SHOWN_KEYS_MAX = 20
_FIX = (
    "run stream-app backfill TABLE --conf FILE, which writes the differences by the topics, or "
    "with --source by the database; `stream-app changelog` shows a row that another writer changed"
)


@dataclass(slots=True, kw_only=True)
class SumSides:
    """Both sides of one comparison.

    Attributes:
        left_out_columns: the columns that are not compared, with the reasons.
        job_columns: the table's columns that the job computes and no source has.
        equal: the source and the checksum if no compared column differs; `compare` sets it.
    """

    table_side: TableSide
    source_side: SummedSide
    left_out_columns: Sequence[str]
    wait_s: float
    job_columns: Collection[str] = ()
    equal: tuple[str, str] | None = field(init=False, default=None)

    def compare(self) -> Iterator[Finding]:
        """Compare the sides, and yield findings about differences and about omissions.

        Raises:
            SourceError: the database does not respond.
            UnsupportedTableError, CorruptFileError: rows cannot be read.
        """
        label = self.source_side.label  # read before the rows, which are of this position or later
        outcome = compare_sums(
            self.table_side, self.source_side, wait_s=self.wait_s, clock=self.table_side.table.clock
        )
        yield from self._differences(outcome, label)
        if self.left_out_columns:
            yield self._not_compared(
                f"columns were left out: {', '.join(self.left_out_columns)}",
                "compare them by the topics (--conf, no --source), or with a table that has them",
            )
        if outcome.moving_key_count:
            yield self._not_compared(
                f"{outcome.moving_key_count} rows changed in the source during the comparison",
                "run it again, or give the table more time (--wait)",
            )
        if outcome.is_equal:
            self.equal = label, str(outcome.total)

    @property
    def omission_text(self) -> str:
        """The columns that are not compared, as text; empty without any."""
        names = [
            name for name in self.table_side.table.schema.fields.names if name in self.job_columns
        ]
        job_columns = [f"{', '.join(names)}, made by the job"] if names else []
        columns_text = ", ".join([*self.left_out_columns, *job_columns])
        return f"; without {columns_text}" if columns_text else ""

    def _differences(self, outcome: SumComparison, label: str) -> Iterator[Finding]:
        """Yield a finding for each kind of difference, with the first keys that have it."""
        rows_text = "rows"
        if not outcome.is_whole:
            rows_text = (
                f"rows in {outcome.compared_group_count} of {outcome.differing_group_count} groups"
            )
        for problem, keys in (
            ("are missing", outcome.missing_keys),
            ("have other values", outcome.wrong_keys),
            ("are not in the source", outcome.unexpected_keys),
        ):
            if keys:
                shown_texts = first_texts(
                    keys,
                    _SHOWN_KEYS_MAX,
                    "; ",
                    lambda key: readable_texts(key, self.table_side.keys),
                )
                yield Finding(
                    kind=FindingKind.SOURCE,
                    problem=f"{len(keys)} {rows_text} {problem}, compared with {label}: "
                    f"{shown_texts}",
                    where=self.table_side.table.location,
                    fix=_FIX,
                )

    def _not_compared(self, problem: str, fix: str) -> Finding:
        where = self.table_side.table.location
        return Finding(kind=FindingKind.NOT_COMPARED, problem=problem, where=where, fix=fix)


def table_sides(
    table: FileStoreTable, source: str, open_table: Callable[[str], FileStoreTable]
) -> SumSides:
    """Return the sides of a comparison with another table, or with a tag of the same table.

    Args:
        source: ``tag:NAME`` of the table itself, or another table.
        open_table: opens a table by its folder or name.

    Raises:
        UsageError: the table or tag does not exist, or the keys cannot be compared.
    """
    other_table, version = (
        (table, Version(tag=source.removeprefix(TAG)))
        if source.startswith(TAG)
        else (open_table(source), Version())
    )
    table_side, source_side, left_out_columns = both_sides(table, other_table, version)
    return SumSides(
        table_side=table_side,
        source_side=source_side,
        left_out_columns=left_out_columns,
        wait_s=0.0,
    )


def database_sides(
    table: FileStoreTable, database: SummedDatabase, summed_source: SummedSource, wait_s: float
) -> SumSides:
    """Return the sides of a comparison with a database.

    Args:
        wait_s: how long to wait until the table has changes that the database has already.

    Raises:
        UsageError: the table does not exist, or the keys cannot be compared.
        SourceError: the database does not respond.
    """
    source_side = database_side(database, summed_source, table.schema)
    return SumSides(
        table_side=newest_side(table, source_side.columns),
        source_side=source_side,
        left_out_columns=source_side.left_out_columns,
        wait_s=wait_s,
        job_columns=summed_source.job_columns,
    )
