"""Creates the tags that a table's options require, and deletes expired ones.

A job calls it after its commits, and at the end of a period. Only the tags record the progress:
after a crash the next job examines the snapshots after the newest automatic tag.

A period that ends without a later commit has no snapshot after its end. With process time the job
commits an empty snapshot for it before other rows, because each automatic tag of Paimon needs a
separate snapshot.

Source: Paimon `tag/TagAutoManager.java`, `tag/TagAutoCreation.java` (`forceCreatingSnapshot`),
`tag/TagTimeExpire.java`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stream_app.clock import local_wall_clock_ms
from stream_app.errors import UsageError
from stream_app.fileio.file_io import FileStatus
from stream_app.model.files.manifest_committable import ManifestCommittable
from stream_app.model.options.tag_options import TAG_DEFAULT_TIME_RETAINED, TAG_TIME_EXPIRE_ENABLED
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from stream_app.model.tag import Tag
from stream_app.planning.upkeep.tag_creation import (
    TagRules,
    due_tags,
    due_time_ms,
    expired_tags,
    lacks_snapshot,
    next_to_examine,
    surplus_tags,
)
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.upkeep.read_protection import TAG_PREFIX
from stream_app.table.upkeep.tags import (
    create_tag,
    delete_tags,
    plan_tag_deletion,
    process_time_ms,
    snapshot_time,
    tag_rules,
)

_LOG = logging.getLogger(__name__)
_MADE_SNAPSHOTS_MAX = 100
"""Empty snapshots that one run commits: `tag.automatic-completion` may need thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagUpkeepReport:
    """The names of created and deleted tags, and the files that were deleted with tags."""

    created_names: tuple[str, ...] = ()
    deleted_names: tuple[str, ...] = ()
    file_count: int = 0
    byte_count: int = 0


@dataclass(slots=True)
class TagUpkeep:
    """The upkeep of one table's tags, which remembers the next tag's time."""

    table: FileStoreTable
    _examined_id: int = field(init=False, default=0)
    _has_warned: bool = field(init=False, default=False)
    _is_due_known: bool = field(init=False, default=False)
    _due_time_ms: int | None = field(init=False, default=None)

    def is_due(self) -> bool:
        """Return whether a period without a tag is over by the clock; watermarks play no part.

        The method reads the table only at the first call, and when a tag is due.

        Raises:
            UsageError: the options contradict each other.
            CorruptFileError: a tag cannot be read.
        """
        now_ms = process_time_ms(self.table)
        rules = tag_rules(self.table)
        if now_ms is None or rules is None:
            return False
        if not self._is_due_known or (
            self._due_time_ms is not None and now_ms >= self._due_time_ms
        ):
            self._schedule_next_period(rules)
        return self._due_time_ms is not None and now_ms >= self._due_time_ms

    def run(self, *, makes_snapshots: bool = False) -> TagUpkeepReport:
        """Create due tags, then delete tags beyond the retained number, and expired tags.

        Args:
            makes_snapshots: whether to commit snapshots for periods that are over and have none
                after their end. Only a caller that may commit at this moment sets it.

        Raises:
            UsageError: the options contradict each other.
            CorruptFileError: a tag, or its metadata, cannot be read.
            CommitError: other writers won every race for a snapshot.
        """
        rules = tag_rules(self.table)
        created_names = () if rules is None else self._create(rules)
        if rules is not None and makes_snapshots:
            created_names += self._catch_up(rules)
        while True:
            deleted_names = self._surplus_tags(rules)
            if not deleted_names:
                return TagUpkeepReport(created_names=created_names)
            try:
                plan = plan_tag_deletion(self.table, deleted_names)
            except UsageError:
                continue  # another process has just deleted one of these tags
            break
        delete_tags(self.table, plan)
        return TagUpkeepReport(
            created_names=created_names,
            deleted_names=deleted_names,
            file_count=plan.files.count,
            byte_count=plan.files.byte_count,
        )

    def _catch_up(self, rules: TagRules) -> tuple[str, ...]:
        created_names: tuple[str, ...] = ()
        for _ in range(_MADE_SNAPSHOTS_MAX):
            if not self._lacks_snapshot(rules):
                break
            commit_user = f"create-tags-{uuid.uuid4()}"
            commit_history = CommitHistory(self.table, commit_user, self.table.snapshots.latest())
            no_files = ManifestCommittable(identifier=BATCH_COMMIT_IDENTIFIER)
            FileStoreCommit(self.table, commit_history).commit_appends(no_files)
            names = self._create(rules)
            if not names:  # further snapshots would not help either
                break
            created_names += names
        return created_names

    def _lacks_snapshot(self, rules: TagRules) -> bool:
        now_ms = process_time_ms(self.table)
        first_id, next_start_ms = self._schedule_next_period(rules)
        latest_snapshot = self.table.snapshots.latest()
        if now_ms is None or latest_snapshot is None:
            return False
        if latest_snapshot.snapshot_id + 1 < first_id:
            return False  # the newest tag is ahead of the table, so a new snapshot would get no tag
        is_untagged = latest_snapshot.snapshot_id >= first_id
        latest_snapshot_time = snapshot_time(self.table, latest_snapshot) if is_untagged else None
        return lacks_snapshot(rules, next_start_ms, latest_snapshot_time, now_ms)

    def _schedule_next_period(self, rules: TagRules) -> tuple[int, int | None]:
        """Find the next period, and note when its tag is due.

        Returns:
            The id of the next snapshot to examine, and the start of the next period.
        """
        tag = self._newest_automatic_tag(rules)
        first_id, next_start_ms = next_to_examine(rules, [] if tag is None else [tag])
        self._is_due_known = True
        self._due_time_ms = due_time_ms(rules, next_start_ms)
        return first_id, next_start_ms

    def _create(self, rules: TagRules) -> tuple[str, ...]:
        """Create the tags of the periods that have ended, and return their names."""
        first_id, next_start_ms = self._schedule_next_period(rules)
        snapshots = self._snapshots(max(first_id, self._examined_id + 1))
        snapshot_times = [snapshot_time(self.table, snapshot) for snapshot in snapshots]
        is_untimed = bool(snapshot_times) and all(time.time_ms is None for time in snapshot_times)
        if is_untimed and not self._has_warned:
            self._has_warned = True
            _LOG.warning(
                "no tags are made: they follow the watermark, but no snapshot has one, because "
                "stream_app writes none: set 'tag.automatic-creation' = 'process-time'"
            )
        by_snapshot_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
        created_names = []
        time_retained_ms = self.table.options[TAG_DEFAULT_TIME_RETAINED]
        for due_tag in due_tags(rules, next_start_ms, snapshot_times):
            create_time_ms = (
                None if time_retained_ms is None else local_wall_clock_ms(self.table.clock)
            )
            tag = Tag(
                name=due_tag.name,
                snapshot=by_snapshot_id[due_tag.snapshot_id],
                create_time_ms=create_time_ms,
                time_retained_ms=time_retained_ms,
            )
            try:
                created_names += [due_tag.name] if create_tag(self.table, tag) else []
            except UsageError:  # the snapshot has expired, so the next one gets the tag
                break
        else:
            # The created tags determine what is due next.
            self._is_due_known = not created_names
            self._examined_id = (
                max(self._examined_id, *by_snapshot_id) if by_snapshot_id else self._examined_id
            )
        return tuple(created_names)

    def _newest_automatic_tag(self, rules: TagRules) -> Tag | None:
        """Return the newest automatic tag, which records the progress; None without one."""
        manager = self.table.tags
        dated_names = [
            (start_ms, name)
            for name in manager.names()
            if (start_ms := rules.period_rule.start_ms(name)) is not None
        ]
        return manager.tag(max(dated_names)[1]) if dated_names else None

    def _snapshots(self, first_id: int) -> Sequence[Snapshot]:
        """Return the existing snapshots from an id on, ascending."""
        snapshots = self.table.snapshots
        newest_first = list(snapshots.backwards(down_to=first_id))
        return newest_first[::-1]

    def _surplus_tags(self, rules: TagRules | None) -> tuple[str, ...]:
        expires = self.table.options[TAG_TIME_EXPIRE_ENABLED]
        if not expires and (rules is None or rules.num_max is None):
            return ()
        statuses = self.table.tags.statuses()
        tags = self.table.tags.tags_named(sorted(statuses))
        names = surplus_tags(rules, tags) if rules is not None else []
        if expires:
            lasting_tags = [tag for tag in tags if not tag.name.startswith(TAG_PREFIX)]
            names += expired_tags(lasting_tags, local_wall_clock_ms(self.table.clock))
            reading_tags = (tag for tag in tags if tag.name.startswith(TAG_PREFIX))
            names += self._abandoned_tags(reading_tags, statuses)
        return tuple(dict.fromkeys(names))

    def _abandoned_tags(self, tags: Iterable[Tag], statuses: Mapping[str, FileStatus]) -> list[str]:
        """Return the names of readers' tags beyond their time to live, by the age of their files.

        The tags' wall-clock times are unsuitable: a reader may have another time zone, and wall
        clocks are adjusted.
        """
        dated_tags = [
            replace(tag, create_time_ms=statuses[tag.name].modification_time_ms) for tag in tags
        ]
        return expired_tags(dated_tags, self.table.clock.now_ms())
