"""Reads the content of a table's page from the table's metadata."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa

from stream_app.app.inspect.bucket_trees import TreeRow, next_compactions, sorted_run_rows
from stream_app.app.inspect.compaction_history import CompactionRow, compactions_of
from stream_app.app.inspect.overview import Overview, overview
from stream_app.app.inspect.table_listings import OptionRow, listing, option_rows
from stream_app.app.observe.events.epoch_history import TableActivity
from stream_app.app.text.listing import Listing
from stream_app.app.text.value_text import plain_texts
from stream_app.app.web.drawings.bar_charts import (
    SHOWN_SNAPSHOTS_MAX,
    RowsChart,
    SnapshotChart,
    rows_chart,
    snapshot_chart,
)
from stream_app.app.web.drawings.trees import SHOWN_BUCKETS_MAX, BucketTree, bucket_trees
from stream_app.app.web.pages import PageList
from stream_app.app.web.table_parts import (
    ColumnRow,
    PartProblem,
    PartReader,
    QuarantinedKind,
    SchemaVersion,
    column_rows,
    largest_files,
    next_expiry,
    quarantined_kinds,
    schema_versions,
    space_amplification,
    trait_texts,
)
from stream_app.model.snapshot import CommitKind, Snapshot
from stream_app.planning.read.stream_start import stream_start
from stream_app.quarantine.quarantine_folder import Quarantine
from stream_app.table.api.paimon_table import first_rows
from stream_app.table.commit.recorded_epochs import newest_epochs
from stream_app.table.conditions.row_filter import row_filter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.changelog_follow import (
    ChangelogFollow,
    FollowSettings,
    changelog_batches,
)
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.read.split_read import SplitRead
from stream_app.table.read.split_scan import SplitScan
from stream_app.table.upkeep.expire_snapshots import SnapshotExpiry
from stream_app.table.versions.file_store_scan import FileStoreScan

SHOWN_ROWS_MAX = 20
SHOWN_RUNS_MAX = 100
QUERY_ROWS_MAX = 200
READ_CHANGES_MAX = 50_000
"""The number of changes of a snapshot that a page reads: a first load may have millions."""
_TEXT_WIDTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePage:
    """One table at its latest snapshot.

    Attributes:
        is_empty: whether the table has no snapshot yet.
        overview: the main facts, or None if there is no snapshot or it cannot be read.
        trees: the trees with the most sorted runs; `more_tree_count` more are not shown.
        write_amplification: bytes that appends and compactions of the shown snapshots wrote per
            byte of the appends, or None without appends.
        space_amplification: bytes of all sorted runs per byte of the buckets' oldest runs, or None.
        traits: the kind of table, in few words.
        history: the latest snapshots.
        activity: the current compactions, or None if the table's job runs in another process.
        problems: parts that cannot be shown, and why.
    """

    name: str
    is_empty: bool
    overview: Overview | None
    traits: Sequence[str]
    trees: Sequence[BucketTree]
    more_tree_count: int
    write_amplification: float | None
    space_amplification: float | None
    history: SnapshotChart
    rows: RowsChart | None
    activity: TableActivity | None
    expiry: SnapshotExpiry | None
    versions: Sequence[SchemaVersion]
    lists: Sequence[PageList]
    quarantined_kinds: Sequence[QuarantinedKind]
    problems: Sequence[PartProblem]


def table_page(
    name: str,
    table: FileStoreTable,
    open_quarantine: Callable[[], Quarantine | None],
    activity: TableActivity | None = None,
) -> TablePage:
    """Read a page, without opening data files. An unreadable part does not hide the others.

    Args:
        open_quarantine: opens the quarantine of the table.
        activity: the compactions of the job in this process.
    """
    parts = PartReader()
    snapshots = parts.values(
        "snapshots", lambda: list(islice(table.snapshots.backwards(), SHOWN_SNAPSHOTS_MAX))
    )
    latest_snapshot = snapshots[0] if snapshots else None
    expiry = parts.value("expiry", lambda: next_expiry(table)) if snapshots else None
    expiring_ids = () if expiry is None else expiry.snapshot_ids
    tags = parts.values("tags", table.tags.tags)
    consumers = parts.values("consumers", table.consumers.consumers)
    compactions = parts.values("compactions", lambda: _compactions(table, snapshots))
    runs = parts.values("LSM trees", lambda: _runs(table, latest_snapshot))
    trees = parts.values("LSM trees", lambda: _trees(table, latest_snapshot, runs, activity))
    return TablePage(
        name=name,
        is_empty=latest_snapshot is None and not parts.problems(),
        overview=parts.value(
            "overview", lambda: overview(table, latest_snapshot) if latest_snapshot else None
        ),
        traits=trait_texts(table.schema),
        trees=trees[:SHOWN_BUCKETS_MAX],
        more_tree_count=max(0, len(trees) - SHOWN_BUCKETS_MAX),
        write_amplification=parts.value(
            "write amplification", lambda: _write_amplification(table, snapshots, compactions)
        ),
        space_amplification=space_amplification(runs),
        history=snapshot_chart(snapshots, tags, consumers, expiring_ids),
        rows=rows_chart(snapshots),
        activity=activity,
        expiry=expiry,
        versions=parts.values("schemas", lambda: schema_versions(table)),
        lists=list(_lists(table, latest_snapshot, compactions, runs, parts)),
        quarantined_kinds=parts.values(
            "quarantine",
            lambda: quarantined_kinds(frozenset(newest_epochs(table.snapshots)), open_quarantine),
        ),
        problems=parts.problems(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingRows:
    """Rows as texts, of which long ones are cut.

    Attributes:
        stopped_after: the number of rows that were read before the read was stopped, or None if it
            was not.
    """

    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str | None]] = ()
    stopped_after: int | None = None


class _PageClosedError(Exception):
    """The end of a read before it has read all rows."""


def read_matching_rows(
    table: FileStoreTable,
    where: str | None,
    limit: int,
    goes_on: Callable[[], bool] = lambda: True,
) -> MatchingRows:
    """Read some rows of the latest snapshot.

    Args:
        where: a condition as in ``stream-app read --where``, or None for all rows.
        goes_on: called before each file and batch; False ends the read with the rows so far. It
            interrupts neither the plan nor the first batch of a merge.

    Raises:
        UsageError: the condition is wrong.
    """
    row_count, is_stopped = 0, False

    def count_rows(batch: pa.RecordBatch | None) -> None:
        nonlocal row_count
        if not goes_on():
            raise _PageClosedError
        row_count += 0 if batch is None else batch.num_rows

    def batches_of_splits() -> Iterator[pa.RecordBatch]:
        for split in SplitScan(table, condition).splits(table.snapshots.latest()):
            count_rows(None)
            yield from split_read.read(split)

    condition = None if where is None else row_filter(where, table.schema)
    split_read = SplitRead(table, row_filter=condition, watch=count_rows)
    batches: list[pa.RecordBatch] = []
    try:
        batches.extend(first_rows(batches_of_splits(), limit))
    except _PageClosedError:
        is_stopped = True
    return MatchingRows(
        columns=split_read.selection.schema.names,
        rows=_row_texts(pa.Table.from_batches(batches, split_read.selection.schema)),
        stopped_after=row_count if is_stopped else None,
    )


def changes_of(
    table: FileStoreTable, snapshot_count: int, goes_on: Callable[[], bool] = lambda: True
) -> tuple[list[str], list[list[str | None]]]:
    """Return the newest changes of the latest snapshots, newest last, with their kinds.

    It returns at most `QUERY_ROWS_MAX` changes, from the first `READ_CHANGES_MAX` of each snapshot.

    Args:
        goes_on: called after each snapshot; False ends the read with the changes so far.
    """
    latest_id = table.snapshots.latest_id()
    if latest_id is None:
        return [], []
    first_id = max(latest_id - snapshot_count + 1, table.snapshots.earliest_id() or latest_id)
    names = ["snapshot", "kind"]
    rows = list[list[str | None]]()
    for snapshot_id in range(latest_id, first_id - 1, -1):
        batches = _last_changes(table, snapshot_id, QUERY_ROWS_MAX - len(rows))
        if batches:
            names = ["snapshot", *batches[0].schema.names]
            rows[:0] = [
                [str(snapshot_id), *row] for row in _row_texts(pa.Table.from_batches(batches))
            ]
        if len(rows) == QUERY_ROWS_MAX or not goes_on():
            break
    return names, rows


def _last_changes(table: FileStoreTable, snapshot_id: int, rows_max: int) -> list[pa.RecordBatch]:
    """Return at most `rows_max` last changes of a snapshot, in the form of `StreamRead`."""
    # Do not use the consumer of the table's options, because a page must not change the table.
    settings = FollowSettings(
        start=stream_start("default", snapshot_id=snapshot_id), end=snapshot_id
    )
    last_batches = deque[pa.RecordBatch]()
    row_count = 0
    read_count = 0
    with closing(changelog_batches(ChangelogFollow(StreamRead(table), settings))) as batches:
        for batch in batches:
            last_batches.append(batch.rows)
            row_count += batch.rows.num_rows
            read_count += batch.rows.num_rows
            while row_count - last_batches[0].num_rows >= rows_max:
                row_count -= last_batches.popleft().num_rows
            if read_count >= READ_CHANGES_MAX:
                break
    if row_count > rows_max:
        last_batches[0] = last_batches[0].slice(row_count - rows_max)
    return list(last_batches)


def _row_texts(table: pa.Table) -> list[list[str | None]]:
    columns = [plain_texts(column.combine_chunks()).to_pylist() for column in table.columns]
    return [[_short_text(value) for value in row] for row in zip(*columns, strict=True)]


def _short_text(value: str | None) -> str | None:
    return value if value is None or len(value) <= _TEXT_WIDTH else value[: _TEXT_WIDTH - 1] + "…"


def _compactions(table: FileStoreTable, snapshots: Sequence[Snapshot]) -> list[CompactionRow]:
    return [
        row
        for snapshot in snapshots
        if snapshot.commit_kind is CommitKind.COMPACT
        for row in compactions_of(table, snapshot)
    ]


def _runs(table: FileStoreTable, latest_snapshot: Snapshot | None) -> list[TreeRow]:
    if latest_snapshot is None or not table.kind_traits.merges_by_key:
        return []
    return sorted_run_rows(table, latest_snapshot)


def _trees(
    table: FileStoreTable,
    latest_snapshot: Snapshot | None,
    runs: Sequence[TreeRow],
    activity: TableActivity | None,
) -> list[BucketTree]:
    if not runs:
        return []
    unfinished_compactions = () if activity is None else activity.unfinished_compactions
    return bucket_trees(runs, next_compactions(table, latest_snapshot), unfinished_compactions)


def _write_amplification(
    table: FileStoreTable, snapshots: Sequence[Snapshot], compactions: Sequence[CompactionRow]
) -> float | None:
    appended_size = sum(
        entry.file.file_size
        for snapshot in snapshots
        if snapshot.commit_kind is CommitKind.APPEND
        for entry in FileStoreScan(table).delta(snapshot)
    )
    if not appended_size:
        return None
    return (appended_size + sum(row.bytes_out for row in compactions)) / appended_size


def _lists(
    table: FileStoreTable,
    latest_snapshot: Snapshot | None,
    compactions: Sequence[CompactionRow],
    runs: Sequence[TreeRow],
    parts: PartReader,
) -> Iterator[PageList]:
    """Yield the page's lists in their order; it leaves out a list that it cannot read."""
    columns = column_rows(table.schema)
    yield PageList(title="Columns", listing=Listing(ColumnRow, columns), total=len(columns))
    yield PageList(
        title="Compactions",
        listing=Listing(CompactionRow, compactions[:SHOWN_ROWS_MAX]),
        total=len(compactions),
        which="newest",
    )
    for title, name in (
        ("Snapshots", "snapshots"),
        ("Schemas", "schemas"),
        ("Tags", "tags"),
        ("Consumers", "consumers"),
        ("Partitions", "partitions"),
    ):
        rows = parts.value(title.lower(), partial(listing, name, table, latest_snapshot))
        if rows is not None:
            shown_rows = Listing(rows.row_type, list(rows.rows[-SHOWN_ROWS_MAX:])[::-1])
            which = "latest" if name in ("snapshots", "schemas") else "last"
            yield PageList(title=title, listing=shown_rows, total=len(rows.rows), which=which)
    shown_rows = Listing(TreeRow, runs[:SHOWN_RUNS_MAX])
    yield PageList(title="Sorted runs", listing=shown_rows, total=len(runs))
    if latest_snapshot is not None:
        files = parts.value("files", lambda: largest_files(table, latest_snapshot))
        if files is not None:
            yield PageList(title="Largest files", listing=files, total=len(files.rows))
    set_options = [row for row in option_rows(table) if row.is_set]
    yield PageList(title="Options", listing=Listing(OptionRow, set_options), total=len(set_options))
