"""Checks the rules between versions of a table, for `stream-app check`.

The rules use only ids and counts; `table.check.metadata_check` reads the files.

Source: Paimon `Snapshot.java`, `utils/SnapshotManager.java`, `utils/HintFileUtils.java`,
`operation/FileStoreCommitImpl.java`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stream_app.model.finding import Finding, FindingKind
from stream_app.model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot

_ROLL_BACK = "roll the table back to an earlier snapshot or a tag: stream-app rollback-to"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordCounts:
    """The numbers of rows in a version's manifests; None if a manifest is unreadable.

    Attributes:
        total: the rows of all live files.
        delta: the added rows minus the deleted rows.
        changelog: the rows of its changelog files.
    """

    total: int | None
    delta: int | None
    changelog: int | None


def count_findings(snapshot: Snapshot, file_counts: RecordCounts, where: str) -> Iterator[Finding]:
    """Compare a snapshot's counts with its manifests' counts; unknown counts are skipped.

    A wrong count damages no rows, but readers and users plan by it.
    """
    for field_name, claimed_count, file_count in (
        ("totalRecordCount", snapshot.total_record_count, file_counts.total),
        ("deltaRecordCount", snapshot.delta_record_count, file_counts.delta),
        ("changelogRecordCount", snapshot.changelog_record_count, file_counts.changelog),
    ):
        if None not in (claimed_count, file_count) and claimed_count != file_count:
            snapshot_id = snapshot.snapshot_id
            yield Finding(
                kind=FindingKind.RECORD_COUNT,
                problem=f"snapshot {snapshot_id} says {field_name} = {claimed_count}, its files "
                f"have {file_count}",
                where=where,
                fix=f"{_ROLL_BACK}; a wrong count loses no rows, but the later snapshots continue "
                "from it",
            )


def compaction_findings(snapshot: Snapshot, row_gain: int, where: str) -> Iterator[Finding]:
    """Check that a compaction of a table without a key keeps the number of rows.

    Args:
        row_gain: the rows of added files minus those of deleted files.
    """
    if snapshot.commit_kind is CommitKind.COMPACT and row_gain:
        change_text = f"added {row_gain} rows" if row_gain > 0 else f"lost {-row_gain} rows"
        yield Finding(
            kind=FindingKind.CHANGELOG,
            problem=f"the compaction of snapshot {snapshot.snapshot_id} has {change_text}",
            where=where,
            fix="roll the table back to a snapshot or tag before the compaction (stream-app "
            "rollback-to), and let the job write the later changes again",
        )


def chain_findings(
    snapshot_ids: Sequence[int], latest_hint: int | None, earliest_hint: int | None, where: str
) -> Iterator[Finding]:
    """Yield problems with the ids of existing snapshots, ascending, and with the hints.

    Args:
        latest_hint, earliest_hint: the ids in the hints; None if absent or unreadable.
    """
    for gap in id_gaps(snapshot_ids):
        retained_count = sum(snapshot_id >= gap.right for snapshot_id in snapshot_ids)
        yield Finding(
            kind=FindingKind.SNAPSHOTS,
            problem=f"{gap.text('snapshot')} missing between {gap.left} and {gap.right}",
            where=where,
            fix="restore it from a backup; or expire the snapshots before the gap: "
            f"stream-app expire-snapshots --retain-max {retained_count}",
        )
    yield from hint_findings("snapshot", snapshot_ids, (latest_hint, earliest_hint), where)


@dataclass(frozen=True, slots=True)
class IdGap:
    """Two neighbours in a sequence of ids, between which others are missing."""

    left: int
    right: int

    @property
    def plural(self) -> str:
        """The plural's ending of a noun for the missing ids."""
        return "s" if self.right > self.left + 2 else ""

    def text(self, noun: str) -> str:
        """Return the missing ids after their noun, and before ``missing``."""
        if self.plural:
            return f"{noun}s {self.left + 1} to {self.right - 1} are"
        return f"{noun} {self.left + 1} is"


def id_gaps(ids: Sequence[int]) -> list[IdGap]:
    """Return the gaps in ascending ids."""
    return [IdGap(left, right) for left, right in pairwise(ids) if right > left + 1]


def hint_findings(
    noun: str, ids: Sequence[int], hints: tuple[int | None, int | None], where: str
) -> Iterator[Finding]:
    """Yield problems with the hints of a folder of numbered files.

    Args:
        noun: the word for such a file in messages.
        ids: the ids of the existing files, ascending.
        hints: the ids in LATEST and EARLIEST; None if absent or unreadable.
    """
    latest_hint, earliest_hint = hints
    # Paimon ignores hints that are not above 0, and writes -1 after the last changelog.
    is_believed = latest_hint is not None and latest_hint > 0 and latest_hint + 1 not in ids
    if is_believed and latest_hint not in ids:
        latest_id = ids[-1] if ids else "none"
        yield Finding(
            kind=FindingKind.HINT,
            problem=f"the hint LATEST says {latest_hint}, but the latest {noun} is {latest_id}",
            where=f"{where}/LATEST",
            fix=f"delete the file: Paimon trusts this stale hint unless the next {noun} exists, "
            "and would miss the latest one; without the hint readers list the folder",
        )
    if earliest_hint is not None and earliest_hint in ids[1:]:
        yield Finding(
            kind=FindingKind.HINT,
            problem=f"the hint EARLIEST says {earliest_hint}, but {noun} {ids[0]} is there",
            where=f"{where}/EARLIEST",
            fix="delete the file: with this stale hint readers and expiry never find the older "
            f"{noun}s; without it they list the folder",
        )


def identity_findings(snapshots: Iterable[Snapshot], where: str) -> Iterator[Finding]:
    """Yield findings about epochs that a commit user has committed twice, or out of order."""
    latest_by_user: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        if (
            snapshot.commit_kind is not CommitKind.APPEND
            or snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER
        ):
            continue
        previous_snapshot = latest_by_user.get(snapshot.commit_user)
        if (
            previous_snapshot is not None
            and snapshot.commit_identifier <= previous_snapshot.commit_identifier
        ):
            yield Finding(
                kind=FindingKind.SNAPSHOTS,
                problem=f"snapshot {snapshot.snapshot_id} is commit {snapshot.commit_identifier} "
                f"of {snapshot.commit_user}, whose commit {previous_snapshot.commit_identifier} is "
                f"snapshot {previous_snapshot.snapshot_id} already: an epoch may have been "
                "written twice",
                where=f"{where}/snapshot-{snapshot.snapshot_id}",
                fix="use each checkpoint in one job only; rows of a table with a primary key "
                f"are right nevertheless, else {_ROLL_BACK}",
            )
        latest_by_user[snapshot.commit_user] = snapshot
