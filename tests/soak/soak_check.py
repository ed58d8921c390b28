"""Judges a table of the shop by its topic while no job runs.

The topic says what must be in the table at each snapshot, because a snapshot says where in the
topic it ends. So nothing has to be remembered of a run but how far the topic was applied.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from stream_app import open_table
from stream_app.clock import SystemClock
from stream_app.errors import StreamAppError
from stream_app.format.snapshot_properties.epochs_json import decode_epochs
from stream_app.model.job_epoch import EPOCHS_PROPERTY
from stream_app.model.snapshot import SOURCE_END_PROPERTY, CommitKind, Snapshot
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.opening import open_file_store_table
from tests.support.histories.topic_model import Key, Row, TopicModel, changes_by_key, read_row
from tests.support.judges.paimon_java import PaimonError, PaimonJava
from tests.support.tables.expiring_table import files_on_disk, files_that_are_named

Offsets = Mapping[int, int]


class Topic(Protocol):
    """The messages that the table is made from."""

    def values(self, start: Offsets, end: Offsets) -> Iterator[bytes | None]:
        """Values between two places, each partition in its order."""
        ...


@dataclass
class SoakCheck:
    """Checks one table, again and again as it grows.

    Attributes:
        wrong: whatever is not as it must be, in sentences.
        orphans: files that no version names, as the last check found them.
    """

    location: Path
    topic: Topic
    checks: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    orphans: Mapping[str, float] = field(default_factory=dict)
    rows: int = 0
    changes_replayed: int = 0
    last_epoch: int = -1
    java_rows: int = 0
    java_changes: int = 0
    applied_ends: dict[int, int] = field(default_factory=dict)
    _model: TopicModel = field(default_factory=TopicModel)
    _window: TopicModel = field(default_factory=TopicModel)
    _window_start: int = 0

    def check(self, crashes: Sequence[tuple[float, float]]) -> None:
        """Look at everything; nobody may write to the table meanwhile.

        Args:
            crashes: spans of time (seconds since 1970) in which a file may have been written that
                nothing names.
        """
        began, table = time.monotonic(), _opened(self.location)
        snapshots = [] if table is None else _snapshots(table)
        if table is not None and snapshots:
            self.checks += 1
            self._check_epochs(snapshots)
            for look in (self._check_rows, lambda _: self._check_files(table, crashes)):
                try:
                    look(snapshots)
                except StreamAppError as error:
                    self.complain(f"the table cannot be read: {error}")
        self.seconds += time.monotonic() - began

    def check_with_java(self, java: PaimonJava) -> None:
        """Paimon's own reader gets what the topic says, after `check` has looked at the same."""
        try:
            rows = [read_row(row) for row in java.read(self.location)]
            plans = java.changelog(self.location, from_snapshot=self._window_start + 1)
        except PaimonError as error:
            self.complain(f"Paimon's Java reader fails: {error}")
            return
        self._compare("the table in Java", _by_key(self, rows), self._model.rows)
        changes = [(kind, read_row(row)) for plan in plans for kind, row in plan.changes]
        self._compare_changes("in Java the changelog", changes)
        self.java_rows, self.java_changes = len(rows), len(changes)

    def complain(self, sentence: str) -> None:
        """Something is wrong."""
        self.wrong.append(sentence)
        print(f"WRONG: {sentence}", flush=True)

    def _check_epochs(self, snapshots: Sequence[Snapshot]) -> None:
        ids = [snapshot.snapshot_id for snapshot in snapshots]
        if ids != list(range(ids[0], ids[-1] + 1)):
            self.complain(f"snapshots are missing between others: {ids}")
        epochs = [s.commit_identifier for s in snapshots if s.commit_kind is CommitKind.APPEND]
        if any(later != earlier + 1 for earlier, later in pairwise(epochs)):
            self.complain(f"an epoch is there twice or not at all: {epochs}")
        if len({snapshot.commit_user for snapshot in snapshots}) > 1:
            self.complain("a run of the job has not known its commit user")
        newest = max(snapshot.commit_identifier for snapshot in snapshots)
        if newest < self.last_epoch:
            self.complain(f"epoch {self.last_epoch} was in the table, now {newest} is its newest")
        self.last_epoch = newest

    def _check_rows(self, snapshots: Sequence[Snapshot]) -> None:
        appends = [snapshot for snapshot in snapshots if source_end(snapshot) is not None]
        if not appends:
            self.complain("no snapshot of an epoch is left, by which a job knows where it was")
            return
        first, last = source_end(appends[0]) or {}, source_end(appends[-1]) or {}
        self._model.apply(self.topic.values(self.applied_ends, last))
        self._model.changes.clear()
        self.applied_ends = dict(last)
        table, number = open_table(str(self.location)), appends[0].snapshot_id
        latest = _by_key(self, table.read().read_all().to_pylist())
        self.rows = len(latest)
        self._compare("the table", latest, self._model.rows)

        # Replayed on the earliest version that is left, the changelog leads to the latest one.
        replayed_rows = _by_key(self, table.read(snapshot=number).read_all().to_pylist())
        changes = list(_changelog(table, number + 1, snapshots[-1].snapshot_id))
        self.changes_replayed += len(changes)
        for kind, row in changes:
            if kind in ("+I", "+U"):
                replayed_rows[row["dt"], row["id"]] = row
            elif kind == "-D":
                replayed_rows.pop((row["dt"], row["id"]), None)
        self._compare("the replayed changelog", replayed_rows, latest)
        self._window, self._window_start = TopicModel(), number
        self._window.apply(self.topic.values(first, last))
        self._compare_changes("the changelog", changes)

    def _compare_changes(self, subject: str, changes: Sequence[tuple[str, Row]]) -> None:
        if changes_by_key(changes) != self._window.changes:
            self.complain(
                f"{subject} from snapshot {self._window_start} on has {len(changes)} changes, "
                f"the topic {self._window.change_count}, or others"
            )

    def _compare(self, subject: str, rows: Mapping[Key, Row], expected: Mapping[Key, Row]) -> None:
        if rows != expected:
            missing = [key for key in expected if key not in rows]
            extra = [key for key in rows if key not in expected]
            changed_keys = [key for key in rows if key in expected and rows[key] != expected[key]]
            self.complain(
                f"{subject} lacks {len(missing)} rows {missing[:3]}, has {len(extra)} too many "
                f"{extra[:3]} and {len(changed_keys)} others {changed_keys[:3]}"
            )

    def _check_files(self, table: FileStoreTable, crashes: Sequence[tuple[float, float]]) -> None:
        named_files, on_disk = files_that_are_named(table), files_on_disk(table)
        if missing := sorted(named_files - on_disk):
            self.complain(f"{len(missing)} files are named and missing: {missing[:3]}")
        self.orphans = {
            path.name: path.stat().st_mtime
            for path in self.location.rglob("*")
            if path.name in on_disk - named_files or path.name.endswith(".tmp")
        }
        strange = sorted(
            name
            for name, written in self.orphans.items()
            if not any(start <= written <= end for start, end in crashes)
        )
        if strange:
            self.complain(f"{len(strange)} orphans are of no crash: {strange[:3]}")


def source_end(snapshot: Snapshot) -> dict[int, int] | None:
    """Kafka partition → offset up to which the snapshot has the topic; None: it does not tell."""
    properties = snapshot.properties or {}
    text = properties.get(SOURCE_END_PROPERTY)
    if text is None:  # a commit of compactions: it has the job's newest epoch
        epoch = decode_epochs(properties.get(EPOCHS_PROPERTY, "{}")).get(snapshot.commit_user)
        text = epoch.source_end if epoch else None
    if text is None:
        return None
    (offsets,) = json.loads(text.splitlines()[0]).values()
    return {int(partition): int(offset) for partition, offset in offsets.items()}


def _opened(location: Path) -> FileStoreTable | None:
    if not list((location / "schema").glob("schema-*")):
        return None
    return open_file_store_table(str(location), SystemClock())


def _snapshots(table: FileStoreTable) -> list[Snapshot]:
    return [table.snapshots.snapshot(number) for number in table.snapshots.ids()]


def _by_key(check: SoakCheck, rows: Iterable[Row]) -> dict[Key, Row]:
    row_list = list(rows)
    by_key = {(row["dt"], row["id"]): row for row in row_list}
    if len(by_key) != len(row_list):
        check.complain(f"{len(row_list) - len(by_key)} rows are in the table twice")
    return by_key


def _changelog(table: Any, start: int, end: int) -> Iterator[tuple[str, Row]]:
    for batch in table.changelog(start="from-snapshot", snapshot=start, end=end):
        for row in batch.rows.to_pylist():
            yield row.pop("rowkind"), row
