"""The versions that must stay readable without a snapshot: by a tag, or as a changelog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.model.snapshot import Snapshot
from stream_app.planning.stream_step import StreamPosition
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.merge_read import MergeRead
from stream_app.table.stream_read import StreamRead
from stream_app.table.stream_scan import StreamScan
from tests.simulation.promises import demand
from tests.simulation.scenario import Change


@dataclass
class KeptVersions:
    """What was promised to stay.

    Attributes:
        tags: snapshots by the names that were given; None: it is not known whether there is one.
        whole_from: no expiry has tried to take this snapshot or a later one.
        changelogs_from: nor this changelog.
        progress: of a consumer that had one when the round began; expiry may not go beyond it.
    """

    tags: dict[str, int | None] = field(default_factory=dict)
    whole_from: int = 1
    changelogs_from: int = 1
    progress: int | None = None
    _first: int = 1

    def check(
        self,
        table: FileStoreTable,
        check_rows: Callable[[Snapshot, MergeRead], None],
        check_changes: Callable[[int, list[Change]], None],
    ) -> None:
        """See that all of it can be read.

        Args:
            check_rows: whether a version has the rows that it must have.
            check_changes: whether the changes of a version are right.
        """
        self._check_numbers(table)
        tags = {tag.name: tag.snapshot for tag in table.tags.tags()}
        for name, number in self.tags.items():
            there = tags[name].snapshot_id if name in tags else None
            demand(number in (None, there), f"tag {name} of snapshot {number} names {there}")
        held = {
            snapshot.snapshot_id: snapshot
            for name, snapshot in tags.items()
            # Of who died while he gave it: it may hold nothing, until the next expiry sees that.
            if self.tags.get(name) is not None or snapshot.snapshot_id >= self.whole_from
        }
        for snapshot in held.values():
            check_rows(snapshot, MergeRead(table))
        scan, read = StreamScan(table), StreamRead(table)
        for number in table.changelogs.ids():
            if number >= self.changelogs_from:
                here = StreamPosition(snapshot_id=number)
                rows = [
                    row
                    for split in scan.splits(here, here.next_snapshot())
                    for batch in read.read(split)
                    for row in batch.to_pylist()
                ]
                check_changes(number, [(row.pop("rowkind"), row) for row in rows])

    def _check_numbers(self, table: FileStoreTable) -> None:
        snapshots, changelogs = table.snapshots.ids(), table.changelogs.ids()
        if not snapshots:
            return
        ids = sorted({*snapshots, *changelogs})
        demand(ids == list(range(ids[0], ids[-1] + 1)), f"changes of {ids} alone are left")
        only_changes = table.options.boolean("consumer.changelog-only")
        first = ids[0] if only_changes else snapshots[0]
        if self.progress is not None:
            # What went before the consumer came stays gone.
            bound = max(self.progress, self._first)
            demand(first <= bound, f"consumer at {self.progress}, {first} is the first")
        self._first = first
        least = table.options.optional_integer("changelog.num-retained.min")
        if least is not None:
            bound = max(1, snapshots[-1] - least + 1)
            demand(ids[0] <= bound, f"changes of {ids} alone are left, and not from {bound} on")
