"""What the page of one table shows, read from its metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from stream_app.app.inspect.compactions import CompactionRow, compactions_of
from stream_app.app.inspect.levels import next_compactions, run_rows
from stream_app.app.inspect.options import OptionRow, option_rows
from stream_app.app.inspect.overview import Overview, overview
from stream_app.app.inspect.views import listing
from stream_app.app.output.listing import Listing
from stream_app.app.output.value_text import plain_texts
from stream_app.app.quarantine.kept_records import KeptRecord, Quarantine
from stream_app.app.web.history_drawing import SHOWN, SnapshotBar, snapshot_bars
from stream_app.app.web.tree_drawing import BUCKETS_SHOWN, BucketTree, bucket_trees
from stream_app.errors import StreamAppError
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.table.api.paimon_table import PaimonTable
from stream_app.table.commit.job_epochs import newest_epochs
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.versions.file_store_scan import FileStoreScan

ROWS_SHOWN = 20
QUERY_ROWS_MAX = 200
_EXAMPLES = 3
_TEXT_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRecords:
    """Records of one kind of reason that wait in the quarantine, with some examples."""

    kind: str
    records: int
    examples: tuple[KeptRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePage:
    """One table at its newest snapshot.

    Attributes:
        overview: None: the table has no snapshot yet.
        trees: those with the most sorted runs; `more_trees` are not shown.
        write_amplification: bytes that appends and compactions of the shown snapshots wrote for
            each byte that appends wrote; None: they appended none.
        bars: the newest snapshots, oldest first.
        listings: by title.
        bad_problem: why the quarantine cannot be read; None: it can.
    """

    name: str
    overview: Overview | None
    trees: Sequence[BucketTree]
    more_trees: int
    write_amplification: float | None
    bars: Sequence[SnapshotBar]
    listings: Sequence[tuple[str, Listing]]
    bad: Sequence[BadRecords]
    bad_problem: StreamAppError | None


def table_page(
    name: str, table: FileStoreTable, quarantine: Callable[[], Quarantine | None]
) -> TablePage:
    """Read a page; files of rows are not opened.

    Args:
        quarantine: opens the job's; one that cannot be read hides no table.

    Raises:
        CorruptFileError: a file of metadata is missing or damaged.
    """
    newest = list(islice(table.snapshots.backwards(), SHOWN))
    latest = newest[0] if newest else None
    trees = _trees(table, latest)
    compactions = [
        row
        for one in newest
        if one.commit_kind is CommitKind.COMPACT
        for row in compactions_of(table, one)
    ]
    bad, bad_problem = _bad(table, quarantine)
    return TablePage(
        name=name,
        overview=None if latest is None else overview(table, latest),
        trees=trees[:BUCKETS_SHOWN],
        more_trees=max(0, len(trees) - BUCKETS_SHOWN),
        write_amplification=_write_amplification(table, newest, compactions),
        bars=snapshot_bars(newest, table.tags.tags(), table.consumers.consumers()),
        listings=list(_listings(table, latest, compactions)),
        bad=bad,
        bad_problem=bad_problem,
    )


def rows_of(
    table: FileStoreTable, where: str | None, limit: int
) -> tuple[list[str], list[list[str | None]]]:
    """The names of the columns, and some rows as texts; wide ones are cut.

    Args:
        where: a condition as in ``stream-app read --where``; None: any row.

    Raises:
        UsageError: the condition is wrong.
    """
    found = PaimonTable(table).read(where=where, limit=limit, threads=1).read_all()
    return found.schema.names, _texts(found)


def changes_of(table: FileStoreTable, snapshots: int) -> tuple[list[str], list[list[str | None]]]:
    """The changes that the newest snapshots brought, newest snapshot last, with their kinds."""
    latest = table.snapshots.latest_id()
    if latest is None:
        return [], []
    first = max(latest - snapshots + 1, table.snapshots.earliest_id() or latest)
    changes = PaimonTable(table).changelog(snapshot=first, end=latest)
    names, rows = ["snapshot", "kind"], list[list[str | None]]()
    for batch in changes:
        names = ["snapshot", *batch.rows.schema.names]
        kept = batch.rows.slice(0, QUERY_ROWS_MAX)
        rows += [[str(batch.snapshot_id), *row] for row in _texts(pa.Table.from_batches([kept]))]
    return names, rows[-QUERY_ROWS_MAX:]


def _texts(found: pa.Table) -> list[list[str | None]]:
    columns = [plain_texts(column.combine_chunks()).to_pylist() for column in found.columns]
    return [[_cut(value) for value in row] for row in zip(*columns, strict=True)]


def _cut(value: str | None) -> str | None:
    return value if value is None or len(value) <= _TEXT_MAX else value[: _TEXT_MAX - 1] + "…"


def _trees(table: FileStoreTable, latest: Snapshot | None) -> list[BucketTree]:
    if latest is None or not table.kind.merges_by_key:
        return []
    return bucket_trees(run_rows(table, latest), next_compactions(table, latest))


def _write_amplification(
    table: FileStoreTable, snapshots: Sequence[Snapshot], compactions: Sequence[CompactionRow]
) -> float | None:
    added = sum(
        entry.file.file_size
        for one in snapshots
        if one.commit_kind is CommitKind.APPEND
        for entry in FileStoreScan(table).delta(one)
    )
    return (added + sum(row.bytes_out for row in compactions)) / added if added else None


def _listings(
    table: FileStoreTable, latest: Snapshot | None, compactions: Sequence[CompactionRow]
) -> Iterator[tuple[str, Listing]]:
    yield "Compactions", Listing(CompactionRow, compactions[:ROWS_SHOWN])
    for title, name in (
        ("Snapshots", "snapshots"),
        ("Schemas", "schemas"),
        ("Tags", "tags"),
        ("Consumers", "consumers"),
        ("Partitions", "partitions"),
    ):
        found = listing(name, table, latest)
        yield title, Listing(found.row_type, list(found.rows[-ROWS_SHOWN:])[::-1])
    set_options = [row for row in option_rows(table) if row.is_set]
    yield "Options", Listing(OptionRow, set_options)


def _bad(
    table: FileStoreTable, quarantine: Callable[[], Quarantine | None]
) -> tuple[list[BadRecords], StreamAppError | None]:
    try:
        opened = quarantine()
        if opened is None:
            return [], None
        waiting = opened.waiting(frozenset(newest_epochs(table.snapshots)))
    except StreamAppError as error:
        return [], error
    counts = Counter(record.kind for record in waiting)
    found = [
        BadRecords(
            kind=kind,
            records=count,
            examples=tuple(islice((one for one in waiting if one.kind == kind), _EXAMPLES)),
        )
        for kind, count in counts.most_common()
    ]
    return found, None
