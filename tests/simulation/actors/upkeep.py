"""The upkeep beside the jobs expires versions, creates and deletes tags, and deletes rows.

Each action is written down before it begins, because its outcome may stay unknown.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stream_app.errors import CommitConflictError, CorruptFileError, LateCommitError, UsageError
from stream_app.format.binary_row import serialize_arrow_row
from stream_app.model.options.scan_options import CONSUMER_EXPIRATION_TIME
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER
from stream_app.planning.buckets.rescale_plan import planned_rescales
from stream_app.planning.upkeep.expire_range import expire_config
from stream_app.table.commit.commit_history import CommitHistory
from stream_app.table.commit.file_store_commit import FileStoreCommit
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.overwrite.rescale import rescale_partition
from stream_app.table.upkeep.announcements import holding_rollbacks
from stream_app.table.upkeep.expire_changelogs import ExpireChangelogs
from stream_app.table.upkeep.expire_partitions import ExpirePartitions, partition_retention
from stream_app.table.upkeep.expire_snapshots import ExpireSnapshots
from stream_app.table.upkeep.orphan_files import delete_orphans, plan_orphans
from stream_app.table.upkeep.tag_upkeep import TagUpkeep
from stream_app.table.upkeep.tags import create_tag, delete_tags, new_tag, plan_tag_deletion
from stream_app.table.versions.file_store_scan import FileStoreScan
from tests.simulation.actors.follower import CONSUMER
from tests.simulation.actors.workers import Job, seen_by
from tests.simulation.model.oracle import Oracle
from tests.simulation.model.promises import demand
from tests.simulation.scenario import Verb
from tests.simulation.seeds import OLD_PARTITION, YOUNG_PARTITION
from tests.simulation.world import World
from tests.support.tables.deleted_rows import planned_delete


@dataclass
class Upkeep:
    """The upkeep processes of one table.

    Attributes:
        is_wasteful: a process has written files that nobody needs, without any fault.
    """

    world: World
    table: FileStoreTable
    oracle: Oracle
    jobs: dict[str, Job]
    is_wasteful: bool = False
    _count: int = 0

    def works(self, rng: random.Random) -> dict[Verb, Callable[[], object]]:
        """Return the work of each actor."""
        return {
            Verb.EXPIRE: self.expire,
            Verb.DELETE: lambda: self._delete_some(rng),
            Verb.TAG: lambda: self._tag(rng),
            Verb.UNTAG: lambda: self._untag(rng),
            Verb.TAG_UPKEEP: lambda: self._tag_by_options("tagger"),
            Verb.DROP: lambda: self._drop(rng),
            Verb.DROP_OLD: self._drop_old,
            Verb.RESCALE: lambda: self._rescale(rng),
            Verb.SWEEP: lambda: self.sweep(self._since_ms()),
            Verb.FORGET: lambda: self._seen_by("forgetter").consumers.delete(CONSUMER),
        }

    def expire(self) -> None:
        """Expire snapshots as `TableMaintenance` does."""
        if "tag.automatic-creation" in self.table.schema.options:
            self._tag_by_options("expirer")
        table, kept_versions = self._seen_by("expirer"), self.oracle.kept_versions
        config = expire_config(table.options)
        expires_after = table.options[CONSUMER_EXPIRATION_TIME]
        if expires_after is not None:
            table.consumers.expire(table.clock.now_ms(), expires_after)
        expire = ExpireSnapshots(table)
        try:
            expiry = expire.plan(config)
        except UsageError:
            demand(
                self.oracle.goes_back_to is not None,
                "no rollback is under way, and snapshots have gone",
            )
            return
        # What goes must have been looked at.
        self._look()
        whole_from = kept_versions.whole_from
        if expiry.versions and expiry.retained_id is not None:
            kept_versions.whole_from = kept_versions.tried_from = expiry.retained_id
        try:
            expire.execute(expiry)
        except UsageError:
            # A tag was given after the plan, or the table went back: nothing is deleted.
            kept_versions.whole_from = min(kept_versions.whole_from, whole_from)
            return
        changelogs = ExpireChangelogs(table)
        going = changelogs.plan(config)
        if going.versions:
            self.oracle.kept_versions.changelogs_from = going.versions[-1].snapshot_id + 1
        changelogs.execute(going)

    def sweep(self, bound_time_ms: int) -> None:
        """Delete the orphans that are older."""
        table = self._seen_by("sweeper")
        earliest = table.snapshots.earliest_id()
        try:
            plan = plan_orphans(table, bound_time_ms)
        except CorruptFileError:
            # Half of a version is gone with an expiry that was interrupted, or goes just now.
            if earliest is not None and earliest < self.oracle.kept_versions.whole_from:
                return
            if self.oracle.goes_back_to is not None:
                return  # or with a rollback
            raise
        delete_orphans(table, plan)

    def _since_ms(self) -> int:
        drivers = [process for job in self.jobs.values() for process in (job.process, job.zombie)]
        return self.world.unfinished_since_ms(driver for driver in drivers if driver is not None)

    def _delete_some(self, rng: random.Random) -> None:
        for _ in range(rng.choice([1, 1, 2])):
            self._delete(rng)

    def _delete(self, rng: random.Random) -> None:
        table = self._seen_by("deleter")
        try:
            deletion_plan = planned_delete(table, rng)
        except (FileNotFoundError, CorruptFileError):
            if self.oracle.may_go():
                self.is_wasteful = True
                return  # the version has expired meanwhile
            raise
        if deletion_plan is not None:
            snapshot, row = deletion_plan
            self.oracle.others.deleted_values[snapshot.delta_manifest_list] = row["v"]
            self.is_wasteful |= not table.snapshots.publish(snapshot)

    def _tag(self, rng: random.Random) -> None:
        table, kept_versions = self._seen_by("tagger"), self.oracle.kept_versions
        ids = table.snapshots.ids()
        if not ids:
            return
        self._count += 1
        number = rng.choice([*ids, None])
        name = f"tag{self._count}"
        kept_versions.tags[name] = None
        tag = None
        try:
            tag = new_tag(table, name, number)
            is_tagged = number in (None, tag.snapshot.snapshot_id)
            demand(is_tagged, f"not {number} got the tag, but {tag}")
            is_new = create_tag(table, tag)
        except UsageError:
            # A refused tagger finds no tag; and only versions that were going are refused.
            wanted_id = number if tag is None else tag.snapshot.snapshot_id
            is_going = wanted_id is not None and wanted_id < max(
                kept_versions.whole_from, kept_versions.tried_from
            )
            # What a rollback that died was to take may be as it was, and cannot be kept.
            is_going |= self.oracle.goes_back_to is not None or bool(holding_rollbacks(table))
            demand(
                is_going,
                f"{number} is not given a tag, and stays from {kept_versions.whole_from} on",
            )
            demand(table.tags.tag(name) is None, f"{name} was refused, and is there")
            return
        back_to = self.oracle.goes_back_to
        if is_new and (back_to is None or tag.snapshot.snapshot_id <= back_to):
            kept_versions.tags[name] = tag.snapshot.snapshot_id

    def _untag(self, rng: random.Random) -> None:
        table = self._seen_by("tagger")
        names = table.tags.names()
        going = sorted({rng.choice(names) for _ in range(2)}) if names else []
        for name in going:
            self.oracle.kept_versions.tags[name] = None
        try:
            delete_tags(table, plan_tag_deletion(table, going))
        except UsageError:
            existing_names = set(table.tags.names())
            demand(not existing_names.issuperset(going), f"{going} are not deleted, and are there")
        except (FileNotFoundError, CorruptFileError):
            if not self.oracle.may_go():
                raise  # else its neighbours have expired meanwhile

    def _tag_by_options(self, process_name: str) -> None:
        table = self._seen_by(process_name)
        self._look()
        TagUpkeep(table).run()

    def _drop(self, rng: random.Random) -> None:
        table = self._seen_by("dropper")
        value = rng.choice([OLD_PARTITION, YOUNG_PARTITION])
        self._count += 1
        user = f"dropper-{self._count}"
        self.oracle.others.dropped_partitions[user] = value
        row = [pa.array([value])]
        partition = serialize_arrow_row(row, table.schema.partition_type.types, 0)
        commit = FileStoreCommit(table, CommitHistory(table, user, table.snapshots.latest()))
        with self._maybe_late():
            commit.drop_partitions([partition], BATCH_COMMIT_IDENTIFIER)

    def _drop_old(self) -> None:
        table = self._seen_by("dropper")
        retention = partition_retention(table.options)
        assert retention is not None
        expire = ExpirePartitions(table, retention)
        with self._maybe_late():
            for _ in expire.execute(expire.plan()):
                pass

    def _rescale(self, rng: random.Random) -> None:
        table = self._seen_by("rescaler")
        try:
            live = FileStoreScan(table).live(table.snapshots.latest())
            for rescale_plan in planned_rescales(live, rng.choice([1, 2, 3])):
                with self._maybe_late():
                    rescale_partition(table, rescale_plan)
        except CommitConflictError:
            self.is_wasteful = True  # the jobs were faster, each time
        except (FileNotFoundError, CorruptFileError):
            if not self.oracle.may_go():
                raise  # else the version has expired meanwhile
            self.is_wasteful = True

    @contextlib.contextmanager
    def _maybe_late(self) -> Iterator[None]:
        """A late committer gets an error, whether or not its commit was made."""
        try:
            yield
        except LateCommitError:
            self.is_wasteful = True

    def _seen_by(self, process_name: str) -> FileStoreTable:
        return seen_by(self.table, self.world, self.world.process(process_name))

    def _look(self) -> None:
        table = self.table
        self.oracle.look(
            FileStoreTable(table.location, table.schema, self.world.files, self.world.clock)
        )
