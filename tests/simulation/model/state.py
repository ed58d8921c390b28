"""The rows of a table between two snapshots, in plain Python: where they lie, and which are seen.

A row comes in on level 0. A compaction lifts it, and only then do some kinds of tables show it, or
tell its change. So the rows above level 0 are known apart from those on it. Which files a
compaction has lifted is read from its snapshot; what becomes of their rows is not.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.schema.table_schema import TableSchema
from tests.simulation.model.merging import Merge, Record, deduplicate, merge_of, merged
from tests.simulation.scenario import Change

COLUMNS = ("k", "v", "p", "t")
Row = tuple[Any, ...]
Rows = list[Row]


class Telling(enum.Enum):
    """The changes that followers get, and when."""

    FLUSHED = "none"
    INPUT = "input"
    LIFTED = "lookup"
    WHOLE = "full-compaction"


@dataclass(frozen=True)
class Rules:
    """The meaning of a table's options for its rows.

    Attributes:
        keys: its primary key, and the partition where that is not a part of it; empty: it has none.
        crosses: the key lacks the partition.
        hides_level0: readers see rows when a compaction has lifted them.
        records_unchanged: the changelog has an update with the same values.
        keeps_kind: a row keeps the kind with which it first came, as Paimon's first-row does.
        ignores_deletes: the writer drops deletes.
        postpones: rows wait for a move into their buckets, and readers do not see them before.
    """

    keys: tuple[str, ...]
    crosses: bool
    merge: Merge
    telling: Telling
    hides_level0: bool
    records_unchanged: bool
    keeps_kind: bool
    ignores_deletes: bool
    postpones: bool


def rules_of(schema: TableSchema) -> Rules:
    """The rules of a table."""
    options, keys = schema.options, schema.primary_keys
    lacking = [name for name in schema.partition_keys if keys and name not in keys]
    by_vectors = options.get("deletion-vectors.enabled") == "true"
    return Rules(
        keys=(*lacking, *keys),
        crosses=bool(lacking),
        merge=merge_of(options),
        telling=Telling(options.get("changelog-producer", "none")),
        hides_level0=by_vectors or options.get("merge-engine") == "first-row",
        records_unchanged=options.get("changelog-producer.row-deduplicate") != "true",
        keeps_kind=options.get("merge-engine") == "first-row",
        ignores_deletes=options.get("ignore-delete") == "true",
        postpones=options.get("bucket") == "-2",
    )


@dataclass(frozen=True)
class SplitFile:
    """A file that a rescale has written.

    Attributes:
        numbers: the least and the greatest sequence number.
    """

    name: str
    level: int
    bucket: object
    keys: set[Row]
    numbers: tuple[int, int]

    def is_of(self, name: str, removed_files: Sequence[DataFileMeta]) -> bool:
        """Return whether the rows are of this file of level 0, which the rescale has removed."""
        return any(
            file.file_name == name
            and self.level == 0
            and file.min_sequence_number <= self.numbers[0]
            and self.numbers[1] <= file.max_sequence_number
            for file in removed_files
        )


@dataclass
class State:
    """Rows of one version.

    Attributes:
        added_rows: all rows, where there is no key.
        level0: by data file: changes of its keys, oldest first; older files stand first.
        above: rows by key above level 0.
        followed_records: rows by key of a follower of the changelog of full compactions.
        unrecorded_buckets: keys that were lifted since, with the bucket of each.
        postponed_epochs: what waits for a move, epoch by epoch: its files and its changes.
    """

    rules: Rules
    added_rows: Rows = field(default_factory=list)
    level0: dict[str, list[Change]] = field(default_factory=dict)
    above: dict[Row, Record] = field(default_factory=dict)
    followed_records: dict[Row, Record] = field(default_factory=dict)
    unrecorded_buckets: dict[Row, object] = field(default_factory=dict)
    postponed_epochs: list[tuple[frozenset[str], list[Change]]] = field(default_factory=list)

    def copy(self) -> State:
        """Return a copy."""
        return State(
            self.rules, list(self.added_rows), dict(self.level0), dict(self.above),
            dict(self.followed_records), dict(self.unrecorded_buckets), list(self.postponed_epochs),
        )  # fmt: skip

    def rows(self) -> Rows:
        """Return the rows that a reader sees."""
        rows = self.above if self.rules.hides_level0 else self.merged()
        return in_order([*self.added_rows, *map(values_of, rows.values())])

    def seen(self) -> Rows:
        """The rows of a follower up to here."""
        match self.rules.telling:
            case Telling.LIFTED:
                rows = self.above
            case Telling.WHOLE:
                rows = self.followed_records
            case Telling.FLUSHED:
                waiting = [change for _, changes in self.postponed_epochs for change in changes]
                rows = applied(self.rules, self.merged(), waiting)
            case Telling.INPUT:
                rows = self.merged()
        return in_order([*self.added_rows, *map(values_of, rows.values())])

    def merged(self) -> dict[Row, Record]:
        """Rows by key, of all levels."""
        changes = [change for file in self.level0.values() for change in file]
        return applied(self.rules, self.above, changes)

    def waiting(self) -> Sequence[object]:
        """Return what a compaction must merge before readers get its rows, or followers its
        changes.

        This is files of level 0 or without a bucket, and keys that were lifted without a changelog.
        """
        tells = self.rules.telling in (Telling.LIFTED, Telling.WHOLE)
        files = self.level0.items() if tells or self.rules.hides_level0 else ()
        postponed_names = [names for names, changes in self.postponed_epochs if changes]
        return [
            *(name for name, changes in files if changes),
            *self.unrecorded_buckets,
            *postponed_names,
        ]

    def flush(self, changes: Iterable[Change], files: Mapping[str, set[Row]]) -> None:
        """An epoch came in.

        Args:
            files: its data files, with the keys of each.
        """
        if not self.rules.keys:
            self.added_rows += [values_of(row) for _, row in changes]
            return
        of_key = by_key(changes, self.rules.keys)
        for file, keys in files.items():
            self.level0[file] = [change for key in keys for change in of_key.pop(key)]
        assert not of_key, f"no file has the keys {list(of_key)}"

    def postpone(self, changes: Iterable[Change], files: Iterable[str]) -> None:
        """An epoch came in, whose rows have no buckets yet; these are its files."""
        self.postponed_epochs.append((frozenset(files), list(changes)))

    def move(self, waiting_names: Set[str], files: Mapping[str, set[Row]]) -> list[Change]:
        """Whole epochs got their buckets; their changes.

        Args:
            waiting_names: files that have waited.
            files: the data files that their rows are in, with the keys of each.
        """
        moved_changes = [
            changes for names, changes in self.postponed_epochs if names & waiting_names
        ]
        self.postponed_epochs = [
            epoch for epoch in self.postponed_epochs if not epoch[0] & waiting_names
        ]
        changes = [change for epoch in moved_changes for change in epoch]
        self.flush(changes, files)
        return changes

    def rescale(self, removed_files: Sequence[DataFileMeta], came: Sequence[SplitFile]) -> None:
        """Files of a partition were split into those of other buckets; no row changes."""
        level0: dict[str, list[Change]] = {}
        for old in self.level0:
            keys = {self._key(row) for _, row in self.level0[old]}
            parts = [file for file in came if file.keys <= keys and file.is_of(old, removed_files)]
            if not parts:
                level0[old] = self.level0[old]
            for part in parts:
                level0[part.name] = [
                    change for change in self.level0[old] if self._key(change[1]) in part.keys
                ]
        rows = sum(map(len, level0.values()))
        assert rows == sum(map(len, self.level0.values())), "a row of level 0 is lost, or double"
        self.level0 = level0
        self.unrecorded_buckets |= {
            key: file.bucket for file in came for key in file.keys if key in self.unrecorded_buckets
        }

    def lift(self, files: Mapping[str, object], whole: Callable[[object], bool]) -> list[Change]:
        """A compaction has taken files off level 0; the changes that it tells.

        Args:
            files: files that are gone from level 0, with the bucket of each.
            whole: whether a bucket is compacted whole: nothing of it lies between level 0 and the
                highest one.
        """
        changes_of_file = {
            name: self.level0.pop(name) for name in list(self.level0) if name in files
        }
        before = self.above
        changes = [change for file in changes_of_file.values() for change in file]
        bucket_of = {
            self._key(row): files[name] for name, file in changes_of_file.items() for _, row in file
        }
        self.above = applied(self.rules, before, changes)
        if self.rules.telling is Telling.LIFTED:
            net_changes = self._differences(bucket_of, before)
            if self.rules.keeps_kind:
                firsts = by_key(changes, self.rules.keys)
                net_changes = [
                    (firsts[self._key(row)][0][0], row) for kind, row in net_changes if kind == "+I"
                ]
            return net_changes
        if self.rules.telling is not Telling.WHOLE:
            return []
        self.unrecorded_buckets |= bucket_of
        keys = [key for key, bucket in self.unrecorded_buckets.items() if whole(bucket)]
        net_changes = self._differences(keys, self.followed_records)
        self.unrecorded_buckets = {
            key: number for key, number in self.unrecorded_buckets.items() if key not in keys
        }
        self.followed_records = {
            key: row for key, row in self.followed_records.items() if key not in keys
        }
        self.followed_records |= {key: self.above[key] for key in keys if key in self.above}
        return net_changes

    def take_away(self, goes: Callable[[Row], bool]) -> None:
        """Take rows out that nobody tells as changes."""
        self.added_rows = [row for row in self.added_rows if not goes(row)]
        self.level0 = {
            name: [change for change in file if not goes(values_of(change[1]))]
            for name, file in self.level0.items()
        }
        self.postponed_epochs = [
            (names, [change for change in changes if not goes(values_of(change[1]))])
            for names, changes in self.postponed_epochs
        ]
        for rows in (self.above, self.followed_records):
            for key in [key for key, row in rows.items() if goes(values_of(row))]:
                del rows[key]
                self.unrecorded_buckets.pop(key, None)

    def _differences(self, keys: Iterable[Row], before: Mapping[Row, Record]) -> list[Change]:
        """Return the changes from the earlier rows to those above level 0, key by key."""
        changes: list[Change] = []
        for key in keys:
            old, new = before.get(key), self.above.get(key)
            if old is not None and new is not None:
                if old != new or self.rules.records_unchanged:
                    changes += [("-U", old), ("+U", new)]
            elif old is not None:
                changes.append(("-D", old))
            elif new is not None:
                changes.append(("+I", new))
        return changes

    def _key(self, row: Record) -> Row:
        return tuple(row[name] for name in self.rules.keys)


def applied(
    rules: Rules, rows: Mapping[Row, Record], changes: Iterable[Change]
) -> dict[Row, Record]:
    """Rows by key after some changes."""
    rows_by_key = dict(rows)
    for key, those in by_key(changes, rules.keys).items():
        row = merged(rules.merge, rows_by_key.pop(key, None), those)
        if row is not None:
            rows_by_key[key] = row
    return rows_by_key


def replayed(
    rules: Rules, base: Rows, changes: Iterable[Change], merge: Merge | None = None
) -> Rows:
    """The rows of a follower that began with some rows and then applied changes.

    Args:
        merge: how changes count; None: by what tells them.
    """
    as_rows = [("+I", dict(zip(COLUMNS, row, strict=True))) for row in base]
    if not rules.keys:
        return in_order([values_of(row) for _, row in (*as_rows, *changes)])
    is_raw = rules.telling in (Telling.FLUSHED, Telling.INPUT)
    merge = merge or (rules.merge if is_raw else deduplicate)
    rows = {key: versions[0][1] for key, versions in by_key(as_rows, rules.keys).items()}
    for key, versions in by_key(changes, rules.keys).items():
        row = merged(merge, rows.pop(key, None), versions)
        if row is not None:
            rows[key] = row
    return in_order(map(values_of, rows.values()))


def by_key(changes: Iterable[Change], keys: Sequence[str]) -> dict[Row, list[Change]]:
    """Changes of each key, in their order; without a key all are one, in the order of rows."""
    if not keys:
        return {(): sorted(changes, key=lambda change: change[1]["v"])}
    grouped_changes: dict[Row, list[Change]] = {}
    for change in changes:
        grouped_changes.setdefault(tuple(change[1][name] for name in keys), []).append(change)
    return grouped_changes


def values_of(row: Record) -> Row:
    """The values of a row, in the order of the columns."""
    return tuple(row[name] for name in COLUMNS)


def in_order(rows: Iterable[Row]) -> Rows:
    """Rows in one order, whatever their values are."""
    return sorted(rows, key=repr)
