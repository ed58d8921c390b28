"""The versions that must stay readable without a snapshot: by a tag, or as a changelog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.model.options.expire_options import (
    CHANGELOG_NUM_RETAINED_MIN,
    CONSUMER_CHANGELOG_ONLY,
)
from stream_app.model.snapshot import Snapshot
from stream_app.planning.read.stream_step import StreamPosition
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.stream_read import StreamRead
from stream_app.table.follow.stream_scan import StreamScan
from tests.simulation.kinds import can_be_followed
from tests.simulation.model.promises import demand
from tests.simulation.scenario import Change
from tests.support.tables.merge_read import MergeRead


@dataclass
class KeptVersions:
    """The versions that the table must keep.

    Attributes:
        tags: snapshots by the names that were given; None: it is not known whether there is one.
        whole_from: no expiry has tried to take this snapshot or a later one.
        tried_from: an expiry of this round may have begun to delete earlier ones.
        changelogs_from: no expiry has tried to take this changelog or a later one.
        progress: of a consumer that had one when the round began; expiry may not go beyond it.
    """

    tags: dict[str, int | None] = field(default_factory=dict)
    whole_from: int = 1
    tried_from: int = 1
    changelogs_from: int = 1
    progress: int | None = None
    _ids: tuple[int, ...] = (1,)
    _least: int = 1
    _went_back: bool = False

    def check(
        self,
        table: FileStoreTable,
        check_rows: Callable[[Snapshot, MergeRead], None],
        check_changes: Callable[[Snapshot, list[Change]], None],
        is_alive: Callable[[Snapshot], bool],
    ) -> None:
        """See that all of it can be read.

        Args:
            check_rows: whether a version has the rows that it must have.
            check_changes: whether the changes of a version are right.
            is_alive: whether a version leads to the latest one, or the table went back behind it.
        """
        self._check_numbers(table)
        tags = {tag.name: tag.snapshot for tag in table.tags.tags()}
        for name, number in self.tags.items():
            tagged_id = tags[name].snapshot_id if name in tags else None
            demand(
                number in (None, tagged_id), f"tag {name} of snapshot {number} names {tagged_id}"
            )
        protected_snapshots = {
            snapshot.snapshot_id: snapshot
            for name, snapshot in tags.items()
            # A tagger that died may leave a tag that holds nothing until the next expiry.
            if self.tags.get(name) is not None or snapshot.snapshot_id >= self.whole_from
        }
        for name, snapshot in tags.items():
            demand(is_alive(snapshot), f"tag {name} is of a version that a rollback took away")
        for snapshot in protected_snapshots.values():
            check_rows(snapshot, MergeRead(table))
        if not can_be_followed(table.schema.options):
            return
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
                changelog = table.changelogs.changelog(number)
                demand(is_alive(changelog), f"a rollback took changelog {number} away")
                check_changes(changelog, [(row.pop("rowkind"), row) for row in rows])

    def may_go_back(self, target: int) -> None:
        """A rollback begins: of tags behind its target it is not known whether they are there."""
        for name, number in self.tags.items():
            if number is not None and number > target:
                self.tags[name] = None
        self._went_back = True

    def roll_back_to(self, number: int) -> None:
        """The table has gone back, and this is the latest snapshot."""
        self.may_go_back(number)
        self.whole_from = min(self.whole_from, number)
        self.changelogs_from = min(self.changelogs_from, number)

    def _check_numbers(self, table: FileStoreTable) -> None:
        snapshots, changelogs = table.snapshots.ids(), table.changelogs.ids()
        if not snapshots:
            return
        ids = sorted({*snapshots, *changelogs})
        if not self._went_back:
            # A rollback to a version that had expired may have died before all was gone behind it.
            demand(ids == list(range(ids[0], ids[-1] + 1)), f"changes of {ids} alone are left")
        only_changes = table.options[CONSUMER_CHANGELOG_ONLY]
        first = ids[0] if only_changes else snapshots[0]
        if self.progress is not None:
            # What went before the consumer came stays gone.
            bound = min((n for n in self._ids if n >= self.progress), default=self.progress)
            demand(first <= bound, f"consumer at {self.progress}, {first} is the first")
        self._ids = tuple(ids if only_changes else snapshots)
        least = table.options[CHANGELOG_NUM_RETAINED_MIN]
        if least is not None:
            if self._went_back:
                self._least = ids[0]
            bound = max(1, self._least, snapshots[-1] - least + 1)
            demand(ids[0] <= bound, f"changes of {ids} alone are left, and not from {bound} on")
        self._went_back = ids != list(range(ids[0], ids[-1] + 1))
