"""Gives the tags that a table's options ask for, and deletes those that are over.

Called by a job after its commits. Progress is kept nowhere but in the tags themselves: whoever
comes after a crash looks at the snapshots behind the newest automatic tag.

Source: Paimon `tag/TagAutoManager.java`, `tag/TagAutoCreation.java`, `tag/TagTimeExpire.java`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import UsageError
from stream_app.model.snapshot import Snapshot
from stream_app.model.tag import Tag
from stream_app.planning.tag_creation import (
    TagRules,
    due_tags,
    first_snapshot,
    surplus_tags,
    tags_whose_time_is_over,
)
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.tag_changes import create_tag, delete_tags, plan_tag_deletion
from stream_app.table.tag_rules import snapshot_time, tag_rules

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagUpkeepReport:
    """The names of tags that were given and deleted; files that went with those."""

    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0


@dataclass(slots=True)
class TagUpkeep:
    """For one table; remembers which snapshots it has looked at."""

    table: FileStoreTable
    _looked_at: int = 0
    _has_warned: bool = False

    def run(self) -> TagUpkeepReport:
        """Give what is due, then delete what is too much or over.

        Raises:
            UsageError: the options contradict each other.
            CorruptFileError: a tag, or what must stay of it, cannot be read.
        """
        rules = tag_rules(self.table)
        created = () if rules is None else self._create(rules)
        while True:
            deleted = self._over(rules)
            try:
                plan = plan_tag_deletion(self.table, deleted)
            except UsageError:
                continue  # another process, which does the same, has deleted one of them
            break
        delete_tags(self.table, plan)
        return TagUpkeepReport(
            created=created,
            deleted=deleted,
            files=plan.files.count,
            bytes=plan.files.byte_count,
        )

    def _create(self, rules: TagRules) -> tuple[str, ...]:
        begin, next_begin = first_snapshot(rules, self._tags(rules))
        snapshots = self._snapshots(max(begin, self._looked_at + 1))
        times = [snapshot_time(self.table, snapshot) for snapshot in snapshots]
        if times and all(time.time_ms is None for time in times) and not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "no tags are given: they go by watermark, and no snapshot has one. stream_app "
                "writes none: set 'tag.automatic-creation' = 'process-time'"
            )
        by_number = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
        self._make_up_success_file(rules)
        created = []
        retained_ms = self.table.options.optional_integer("tag.default-time-retained")
        for due in due_tags(rules, next_begin, times):
            now = None if retained_ms is None else local_wall_clock_ms(self.table.clock)
            tag = Tag(
                name=due.name,
                snapshot=by_number[due.snapshot_id],
                create_time_ms=now,
                time_retained_ms=retained_ms,
            )
            try:
                created += [due.name] if create_tag(self.table, tag) else []
            except UsageError:  # it has expired meanwhile: the next one gets the tag
                break
        else:
            self._looked_at = max(self._looked_at, *by_number) if by_number else self._looked_at
        return tuple(created)

    def _make_up_success_file(self, rules: TagRules) -> None:
        """Of the newest tag, if who gave it died, or failed, before it was written."""
        if not self.table.tags.has_success_files:
            return
        for tag in self._tags(rules):
            if self.table.tags.lacks_success_file(tag.name):
                self.table.tags.write_success_file(tag.name, self.table.clock.now_ms())

    def _tags(self, rules: TagRules) -> list[Tag]:
        """The newest automatic tag alone: it tells how far it has come."""
        manager = self.table.tags
        begun = [
            (begin, name)
            for name in manager.names()
            if (begin := rules.periods.begin(name)) is not None
        ]
        tag = manager.tag(max(begun)[1]) if begun else None
        return [] if tag is None else [tag]

    def _snapshots(self, begin: int) -> Sequence[Snapshot]:
        """Those from a number on that are there, ascending."""
        snapshots = self.table.snapshots
        found = list(snapshots.backwards(down_to=begin))
        return found[::-1]

    def _over(self, rules: TagRules | None) -> tuple[str, ...]:
        expires = self.table.options.boolean("tag.time-expire-enabled")
        if not expires and (rules is None or rules.num_max is None):
            return ()
        tags = self.table.tags.tags()
        over = surplus_tags(rules, tags) if rules is not None else []
        if expires:
            over += tags_whose_time_is_over(tags, local_wall_clock_ms(self.table.clock))
        return tuple(dict.fromkeys(over))
