"""The rows that followers of a table get, as text."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from stream_app.table.follow.changelog_follow import ChangelogBatch
from tests.support.judges.normal_rows import Row, normal_rows

ChangesBySnapshot = dict[int, list[str]]


def texts(changes: Iterable[tuple[str, Row]]) -> list[str]:
    return sorted(f"{kind} {sorted(row.items())!r}" for kind, row in changes)


def our_changes(batches: Iterable[ChangelogBatch]) -> ChangesBySnapshot:
    by_snapshot: dict[int, list[tuple[str, Row]]] = {}
    for batch in batches:
        rows = normal_rows(pa.Table.from_batches([batch.rows]))
        by_snapshot.setdefault(batch.snapshot_id, []).extend(
            (row.pop("rowkind"), row) for row in rows
        )
    return {snapshot: texts(changes) for snapshot, changes in by_snapshot.items()}
