"""Every table option that stream_app acts on, once: key, type, default and meaning.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`), so a table's options mean the same to
every engine. `CoreOptions` is the parsed view of a table's options. `option_problems` judges the
options of a new table, `check_writable` those of an existing one; both before anything is written.
The names of Paimon's other options stand in `paimon_option_keys`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.merge_engine import traits_of
from stream_app.model.options.bucket_options import BUCKET_OPTIONS
from stream_app.model.options.changelog_producer import ProducerTraits, producer_traits
from stream_app.model.options.commit_options import COMMIT_OPTIONS
from stream_app.model.options.compaction_options import (
    COMMIT_FORCE_COMPACT,
    COMPACTION_OPTIONS,
    FORCE_LOOKUP,
    FULL_COMPACTION_DELTA_COMMITS,
    LOOKUP_COMPACT_MAX_INTERVAL,
    LOOKUP_WAIT,
    NUM_LEVELS,
    NUM_SORTED_RUN_COMPACTION_TRIGGER,
    NUM_SORTED_RUN_STOP_TRIGGER,
    PREPARE_COMMIT_WAIT_COMPACTION,
    SORT_SPILL_THRESHOLD,
    WRITE_ONLY,
    WRITE_ONLY_STOP_TRIGGER,
)
from stream_app.model.options.cross_partition_options import CROSS_PARTITION_OPTIONS
from stream_app.model.options.expire_options import EXPIRE_OPTIONS
from stream_app.model.options.lookup_options import LOOKUP_OPTIONS
from stream_app.model.options.option import (
    Option,
    Value,
    parse_integer,
)
from stream_app.model.options.paimon_option_keys import (
    CORE_KEYS,
    FIELD_KEYS,
    PAIMON_KEYS,
    PREFIXES,
)
from stream_app.model.options.read_options import READ_OPTIONS
from stream_app.model.options.stream_options import STREAM_OPTIONS
from stream_app.model.options.table_options import BUCKET, TABLE_OPTIONS
from stream_app.model.options.tag_options import TAG_OPTIONS
from stream_app.model.table_kind import is_writable

_DECLARED: tuple[Option[Any], ...] = (
    *TABLE_OPTIONS,
    *BUCKET_OPTIONS,
    *CROSS_PARTITION_OPTIONS,
    *COMPACTION_OPTIONS,
    *LOOKUP_OPTIONS,
    *READ_OPTIONS,
    *STREAM_OPTIONS,
    *COMMIT_OPTIONS,
    *EXPIRE_OPTIONS,
    *TAG_OPTIONS,
)
OPTIONS: dict[str, Option[Any]] = {option.key: option for option in _DECLARED}
"""The options that stream_app reads."""

_BY_OLDER_KEY = {key: option for option in OPTIONS.values() for key in option.older_keys}


def option_named(key: str) -> Option[Any] | None:
    """The option of this name, or of this older name; None: stream_app does not read it."""
    return OPTIONS.get(key) or _BY_OLDER_KEY.get(key)


def _is_true(value: str) -> bool:
    return value.lower() == "true"


REFUSED: dict[str, Callable[[str], bool]] = {
    "branch": lambda value: value != "main",
    "chain-table.enabled": _is_true,
    "clustering.incremental": _is_true,
    "data-evolution.enabled": _is_true,
    "data-file.external-paths.strategy": lambda value: value.lower() != "none",
    "file.compression.per.level": bool,
    "file.format.per.level": bool,
    "index-file-in-data-file-dir": _is_true,
    "lock.enabled": _is_true,
    "pk-clustering-override": _is_true,
    "row-tracking.enabled": _is_true,
    "type": lambda value: value != "table",
    "upsert-key": bool,
}
"""Options that ask of a correct writer what we do not do, and the values that ask for it."""

_REFUSED_MAPS = ("file.compression.per.level.", "file.format.per.level.")

_SAID_IN_CONFIGURATION = {
    "path": "the warehouse, the database and the name say where the table is",
    "primary-key": "primary-keys of the configuration says it",
    "partition": "partition-keys of the configuration says it",
}


def option_problems(options: Mapping[str, str]) -> list[str]:
    """What is wrong with the options of a new table: unknown keys, wrong or unsupported values."""
    problems = []
    for key, value in options.items():
        option = option_named(key)
        if option is not None:
            try:
                option.read({key: value})
            except UsageError as error:
                problems.append(f"{error.what} ({error.fix})")
        elif _is_refused(key, value):
            problems.append(f"option {key!r} = {value!r} is not supported by stream_app")
        elif key in _SAID_IN_CONFIGURATION:
            problems.append(f"option {key!r} cannot be set: {_SAID_IN_CONFIGURATION[key]}")
        elif key in CORE_KEYS:
            try:
                CORE_KEYS[key](value)
            except ValueError as problem:
                problems.append(f"option {key!r}: {value!r} {problem}")
        else:
            problems += _other_problems(key)
    return problems + column_option_problems(options)


def _other_problems(key: str) -> list[str]:
    """What is wrong with an option that stands in no list of keys."""
    if key in PAIMON_KEYS | REFUSED.keys() or key.startswith(PREFIXES):
        return []
    return [unknown_key("option", key, sorted(OPTIONS.keys() | PAIMON_KEYS))]


def column_option_problems(options: Mapping[str, str]) -> list[str]:
    """What is wrong with the options of columns (``fields.…``): unknown keys, wrong values."""
    found = []
    for key, value in options.items():
        column, _, what = key.rpartition(".")
        if not key.startswith("fields."):
            continue
        if what not in FIELD_KEYS:
            found.append(unknown_key("option", key, [f"{column}.{known}" for known in FIELD_KEYS]))
        elif what in ("distinct", "ignore-retract") and value.lower() not in ("true", "false"):
            found.append(f"option {key!r}: {value!r} is neither true nor false")
        elif what == "count-limit":
            try:
                if parse_integer(value) < 0:
                    found.append(f"option {key!r}: {value!r} is below 0")
            except ValueError as problem:
                found.append(f"option {key!r}: {value!r} {problem}")
    return found


def _is_refused(key: str, value: str) -> bool:
    return key.startswith(_REFUSED_MAPS) or (key in REFUSED and REFUSED[key](value))


def unknown_key(what: str, key: str, known: Iterable[str]) -> str:
    """``unknown option 'bukket'; did you mean 'bucket'?``"""
    nearest = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    return f"unknown {what} {key!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def check_writable(
    options: Mapping[str, str], primary_keys: Collection[str], partition_keys: Collection[str] = ()
) -> None:
    """Refuse a table whose options need a writer that does more than stream_app.

    Unknown options of an existing table are kept, not refused: Paimon itself validated them. Those
    of columns are judged by `merge_problems`.

    Raises:
        UnsupportedTableError: names every option that stands in the way.
    """
    wrong: list[str] = []
    for option in OPTIONS.values():
        try:
            option.read(options)
        except UsageError:
            wrong += [key for key in (option.key, *option.older_keys) if key in options]
    # Also when it is absent: with a key, Paimon's default -1 is buckets chosen as rows come.
    bucket = -1 if "bucket" in wrong else CoreOptions(options).bucket
    if "bucket" not in wrong and not is_writable(primary_keys, partition_keys, bucket):
        wrong.append("bucket")
    reasons = [*(key for key, value in options.items() if _is_refused(key, value)), *wrong]
    if reasons:
        raise UnsupportedTableError(
            "stream_app cannot write this table: "
            + ", ".join(f"{key} = {options.get(key, '-1')}" for key in reasons),
            fix="write it with the engine that made it, or use a table without these options",
        )


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """A table's options, read by name. Bytes for sizes, milliseconds for durations."""

    raw: Mapping[str, str]

    def __getitem__(self, option: Option[Value]) -> Value:
        """The value of an option, or its default."""
        return option.read(self.raw)

    def columns(self, option: Option[str]) -> tuple[str, ...]:
        """The value of an option that lists columns."""
        return tuple(part.strip() for part in self[option].split(",") if part.strip())

    @property
    def bucket(self) -> int:
        """Number of buckets (``bucket``); -1: no fixed number."""
        return self[BUCKET]

    @property
    def compaction_trigger(self) -> int:
        """``num-sorted-run.compaction-trigger``."""
        return self[NUM_SORTED_RUN_COMPACTION_TRIGGER]

    @property
    def stop_trigger(self) -> int:
        """``num-sorted-run.stop-trigger``; never below the compaction trigger."""
        configured = self[NUM_SORTED_RUN_STOP_TRIGGER]
        trigger = self.compaction_trigger
        return trigger + 3 if configured is None else max(configured, trigger)

    @property
    def num_levels(self) -> int:
        """``num-levels``; the highest level is one less."""
        configured = self[NUM_LEVELS]
        return self.compaction_trigger + 1 if configured is None else configured

    @property
    def merge_engine(self) -> str:
        """The name in ``merge-engine``, also of an engine that is not ours."""
        return self.raw.get("merge-engine", "deduplicate").lower()

    @property
    def writes_changelog(self) -> bool:
        """Whether ``changelog-producer`` is another than ``none``."""
        return self.producer.writes

    @property
    def flushes_changelog(self) -> bool:
        """Whether the writer itself writes the changelog, each change as it comes in."""
        return self.producer.by_flush

    @property
    def looks_up(self) -> bool:
        """Whether compactions look for the older rows of their keys."""
        if self.producer.by_lookup or self.merges_by_vectors:
            return True
        return self[FORCE_LOOKUP] or traits_of(self.merge_engine).needs_lookup

    @property
    def merges_by_vectors(self) -> bool:
        """``deletion-vectors.enabled``; in a table without a primary key it merges nothing."""
        return _is_true(self.raw.get("deletion-vectors.enabled", "false"))

    @property
    def changelog_producer(self) -> str:
        """``changelog-producer``, in lower case."""
        return self.raw.get("changelog-producer", "none").lower()

    @property
    def producer(self) -> ProducerTraits:
        """The traits of ``changelog-producer``."""
        return producer_traits(self.changelog_producer)

    @property
    def lookup_interval(self) -> int:
        """``lookup-compact.max-interval``; never below the compaction trigger."""
        configured = self[LOOKUP_COMPACT_MAX_INTERVAL]
        trigger = self.compaction_trigger
        return 2 * trigger if configured is None else max(configured, trigger)

    @property
    def sort_spill_threshold(self) -> int:
        """``sort-spill-threshold``; a run that is read takes 4 MB, so few are no trouble."""
        configured = self[SORT_SPILL_THRESHOLD]
        return max(32, self.stop_trigger + 1) if configured is None else configured

    def compacts_whole_after(self, epoch: int) -> bool:
        """Whether ``full-compaction.delta-commits`` is due; never in a write-only job."""
        epochs = self[FULL_COMPACTION_DELTA_COMMITS]
        if epochs is None and self.producer.by_full_compaction:
            epochs = 1
        return bool(epochs and (epoch + 1) % epochs == 0) and not self[WRITE_ONLY]

    def waits_for_compaction(self, *, merges_by_key: bool) -> bool:
        """Whether each epoch waits for its compactions, in a table that merges by key or not."""
        if self[COMMIT_FORCE_COMPACT] or self[PREPARE_COMMIT_WAIT_COMPACTION]:
            return True
        return merges_by_key and self.looks_up and self[LOOKUP_WAIT] and not self[WRITE_ONLY]

    @property
    def write_only_stop_trigger(self) -> int:
        """``write-only.stop-trigger``; at least as many as another job's compaction begins with."""
        configured = self[WRITE_ONLY_STOP_TRIGGER]
        if configured is None:
            return 10 * self.stop_trigger
        return max(configured, self.compaction_trigger + 1)
