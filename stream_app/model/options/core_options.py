"""Lists all table options that stream_app supports, and checks the options of a table.

Keys and defaults are Paimon's (1.4, `CoreOptions.java`), so a table's options mean the same to all
engines. `CoreOptions` is the parsed view of a table's options. `option_problems` checks a new
table, and `check_writable` an existing one, before anything is written. `option_support` decides
what Paimon's other options mean for stream_app.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.errors import UnsupportedTableError, UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.options import (
    bucket_options,
    compaction_options,
    expire_options,
    file_options,
    iceberg_options,
    merge_options,
    scan_options,
    schema_options,
    tag_options,
    write_options,
)
from stream_app.model.options.bucket_options import BUCKET
from stream_app.model.options.compaction_options import (
    COMMIT_FORCE_COMPACT,
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
from stream_app.model.options.file_options import (
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_MERGE_ON_READ,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
)
from stream_app.model.options.merge_options import COLUMN_OPTIONS
from stream_app.model.options.option import COLUMN_PREFIX, Option, Value, declared_options
from stream_app.model.options.option_support import Purpose, is_left_by_engine, refusals
from stream_app.model.options.paimon_option_keys import (
    CORE_KEYS,
    FIELD_KEYS,
    NEWER_FIELD_KEYS,
    PAIMON_KEYS,
    PAIMON_PREFIXES,
    VALUE_CHECKS,
)
from stream_app.model.traits.changelog_producer import ProducerTraits, producer_traits
from stream_app.model.traits.kind_traits import is_writable
from stream_app.model.traits.merge_engine import DEDUPLICATE, traits_of

_DECLARING_MODULES = (
    *(bucket_options, merge_options, file_options, write_options, compaction_options),
    *(scan_options, expire_options, tag_options, iceberg_options),
    schema_options,
)
OPTIONS: dict[str, Option[Any]] = {
    key: option
    for module in _DECLARING_MODULES
    for key, option in declared_options(vars(module)).items()
}
"""The options that stream_app reads."""

_BY_OLDER_KEY = {key: option for option in OPTIONS.values() for key in option.older_keys}
_OLD_DEFAULT = "default-value"
"""An option of columns in Paimon before 1.0, without effect in later versions."""
_SET_ELSEWHERE = {
    "path": "the warehouse, the database and the name say where the table is",
    "primary-key": "primary-keys of the configuration says it",
    "partition": "partition-keys of the configuration says it",
    "scan.tag-name": "give the tag to a read",
    "scan.version": "give the version to a read",
    "scan.watermark": "give the watermark to a read",
}
"""The options that no table of stream_app stores, with what replaces them."""
_FIXES = {
    Purpose.WRITE: "write it with the engine that made it, or use a table without these options",
    Purpose.READ: "read it with Paimon's own readers",
    Purpose.FIND: "use the engine that made the table; nothing was changed",
    Purpose.EXPIRE: "use the engine that made the table; nothing was changed",
}


def option_named(key: str) -> Option[Any] | None:
    """Return the option of this current or older name; None if stream_app does not read it."""
    return OPTIONS.get(key) or _BY_OLDER_KEY.get(key)


def option_problems(options: Mapping[str, str]) -> list[str]:
    """Return problems with a new table's options: unknown keys, wrong or unsupported values."""
    problems = []
    for key, value in options.items():
        option = option_named(key)
        if key in _SET_ELSEWHERE:
            problems.append(f"option {key!r} cannot be set: {_SET_ELSEWHERE[key]}")
        elif refusal_text := _refusal_text(key, value):
            problems.append(refusal_text)
        else:
            problems += (
                _value_problems(option, key, value) if option else _other_problems(key, value)
            )
    return problems + column_option_problems(options)


def _value_problems(option: Option[Any], key: str, value: str) -> list[str]:
    """Return the problem with the value of an option that stream_app reads; empty without one."""
    try:
        option.read({key: value})
        VALUE_CHECKS.get(key, str)(value)
    except UsageError as error:
        return [f"{error.problem} ({error.fix})"]
    except ValueError as problem:
        return [f"option {key!r}: {value!r} {problem} ({option.key}: {option.meaning})"]
    return []


def _other_problems(key: str, value: str) -> list[str]:
    """Return the problem with an option that other engines read; empty without one."""
    if key in CORE_KEYS:
        try:
            CORE_KEYS[key].parse(value)
            VALUE_CHECKS.get(key, str)(value)
        except ValueError as problem:
            return [f"option {key!r}: {value!r} {problem}"]
        return []
    if key in PAIMON_KEYS or key.startswith(PAIMON_PREFIXES):
        return []
    return [unknown_name("option", key, sorted(OPTIONS.keys() | PAIMON_KEYS))]


def unknown_options(options: Mapping[str, str]) -> list[str]:
    """Return keys that neither Paimon, its engines nor stream_app know, in the table's order.

    For a later version of Paimon, or another engine, they may have any meaning.
    """
    return [key for key in options if not (_is_known(key) or is_left_by_engine(key))]


def _is_known(key: str) -> bool:
    if key.startswith(COLUMN_PREFIX):
        suffixes = (*FIELD_KEYS, *NEWER_FIELD_KEYS, _OLD_DEFAULT)
        return key.endswith(tuple(f".{suffix}" for suffix in suffixes))
    return key in PAIMON_KEYS or option_named(key) is not None or key.startswith(PAIMON_PREFIXES)


def column_option_problems(options: Mapping[str, str]) -> list[str]:
    """Return problems with options of columns (``fields.…``): unknown keys, wrong values."""
    problems = []
    for key, value in options.items():
        if not key.startswith(COLUMN_PREFIX):
            continue
        prefix, _, suffix = key.rpartition(".")
        if suffix not in FIELD_KEYS:
            keys = [f"{prefix}.{field_key}" for field_key in FIELD_KEYS]
            problems.append(unknown_name("option", key, keys))
        elif suffix in COLUMN_OPTIONS:
            option = COLUMN_OPTIONS[suffix].of(prefix.removeprefix(COLUMN_PREFIX))
            problems += _value_problems(option, key, value)
    return problems


def _refusal_text(key: str, value: str) -> str:
    """Return why an option of a new table is refused; empty if it is not."""
    for purpose in (Purpose.WRITE, Purpose.READ):
        for _, refusal in refusals({key: value}, purpose):
            reason = f" ({refusal.reason})" if refusal.reason else ""
            return f"option {key!r} = {value!r} is not supported by stream_app{reason}"
    return ""


def check_writable(
    options: Mapping[str, str],
    primary_keys: Collection[str],
    partition_keys: Collection[str] = (),
    where: str = "",
) -> None:
    """Refuse a table whose options require a feature that stream_app's writer lacks.

    An unknown option is refused too, because this writer might violate it. `merge_problems` also
    checks the options of columns.

    Args:
        where: the table's location, if it exists.

    Raises:
        UnsupportedTableError: the error names all such options.
    """
    wrong_keys: list[str] = []
    for option in OPTIONS.values():
        try:
            option.read(options)
        except UsageError:
            wrong_keys += [key for key in (option.key, *option.older_keys) if key in options]
    # This also holds for an absent option: with a key, Paimon's default -1 means dynamic buckets.
    bucket = -1 if "bucket" in wrong_keys else CoreOptions(options).bucket
    if "bucket" not in wrong_keys and not is_writable(primary_keys, partition_keys, bucket):
        wrong_keys.append("bucket")
    other_reasons = [f"{key} = {options.get(key, '-1')}" for key in wrong_keys]
    check_purpose(options, Purpose.WRITE, other_reasons, where)


def check_purpose(
    options: Mapping[str, str],
    purpose: Purpose,
    other_reasons: Collection[str] = (),
    where: str = "",
) -> None:
    """Refuse a table whose options forbid a purpose.

    Args:
        other_reasons: further reasons.
        where: the table's location.

    Raises:
        UnsupportedTableError: the error names all such options.
    """
    refusals_by_key = list(refusals(options, purpose))
    unknown_keys = unknown_options(options) if purpose in (Purpose.WRITE, Purpose.EXPIRE) else []
    reasons = [
        _option_reason(key, options[key], refusal.reason) for key, refusal in refusals_by_key
    ]
    reasons += [
        _option_reason(key, options[key], "stream_app does not know it") for key in unknown_keys
    ]
    reasons += other_reasons
    if not reasons:
        return
    fix = _FIXES[purpose]
    removable_keys = [
        key for key, refusal in refusals_by_key if refusal.is_removable
    ] + unknown_keys
    if len(removable_keys) == len(reasons):
        fix += f"; or, if no engine needs it, take it out: stream-app alter {where or 'TABLE'} "
        fix += " ".join(f"--unset {key}" for key in removable_keys)
    raise UnsupportedTableError(f"{purpose.value}{', '.join(reasons)}", where=where, fix=fix)


def _option_reason(key: str, value: str, cause: str) -> str:
    return f"{key} = {value}" + (f" ({cause})" if cause else "")


def lasting_refusals(options: Mapping[str, str]) -> dict[str, str]:
    """Return options that forbid writing even after an ALTER has removed them.

    Existing files of the table, or the meaning of its rows, depend on them.
    """
    return {
        key: options[key]
        for key, refusal in refusals(options, Purpose.WRITE)
        if not refusal.is_removable
    }


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """A table's parsed options. Sizes are in bytes, durations in milliseconds."""

    raw: Mapping[str, str]

    def __getitem__(self, option: Option[Value]) -> Value:
        """Return the value of an option, or its default."""
        return option.read(self.raw)

    def columns(self, option: Option[str]) -> tuple[str, ...]:
        """Return the value of an option that lists columns."""
        return tuple(part.strip() for part in self[option].split(",") if part.strip())

    def at_level(self, level: int) -> CoreOptions:
        """Return the options of a level's new data files, in a table with a primary key."""
        level_values = {
            FILE_FORMAT.key: self[FILE_FORMAT_PER_LEVEL].get(level),
            FILE_COMPRESSION.key: self[FILE_COMPRESSION_PER_LEVEL].get(level),
        }
        level_options = {key: word for key, word in level_values.items() if word is not None}
        return CoreOptions({**self.raw, **level_options}) if level_options else self

    @property
    def bucket(self) -> int:
        """The number of buckets (``bucket``); -1: no fixed number, -2: postponed buckets."""
        return self[BUCKET]

    @property
    def compaction_trigger(self) -> int:
        """``num-sorted-run.compaction-trigger``."""
        return self[NUM_SORTED_RUN_COMPACTION_TRIGGER]

    @property
    def stop_trigger(self) -> int:
        """``num-sorted-run.stop-trigger``; never below the compaction trigger."""
        configured_value = self[NUM_SORTED_RUN_STOP_TRIGGER]
        trigger = self.compaction_trigger
        return trigger + 3 if configured_value is None else max(configured_value, trigger)

    @property
    def num_levels(self) -> int:
        """``num-levels``; the highest level is one less."""
        configured_value = self[NUM_LEVELS]
        return self.compaction_trigger + 1 if configured_value is None else configured_value

    @property
    def merge_engine(self) -> str:
        """The value of ``merge-engine``, which may be an engine that stream_app lacks."""
        return self.raw.get("merge-engine", DEDUPLICATE).lower()

    @property
    def writes_changelog(self) -> bool:
        """Whether ``changelog-producer`` has a value other than ``none``."""
        return self.producer.writes_changelog

    @property
    def flushes_changelog(self) -> bool:
        """Whether the writer itself writes each incoming change to the changelog."""
        return self.producer.writes_on_flush

    @property
    def looks_up(self) -> bool:
        """Whether compactions look up the older rows of their keys."""
        if self.producer.writes_by_lookup or self.merges_by_vectors:
            return True
        return self[FORCE_LOOKUP] or traits_of(self.merge_engine).needs_lookup

    @property
    def merges_by_vectors(self) -> bool:
        """Whether ``deletion-vectors.enabled`` is on; only keyed tables merge by vectors."""
        return self[DELETION_VECTORS_ENABLED]

    @property
    def hides_level0(self) -> bool:
        """Whether readers of keyed rows skip files that are not compacted yet."""
        if self.merges_by_vectors:
            return not self[DELETION_VECTORS_MERGE_ON_READ]
        return traits_of(self.merge_engine).needs_lookup

    @property
    def hashes_by_default(self) -> bool:
        """Whether ``bucket-function.type`` is the default function."""
        return self.raw.get("bucket-function.type", "default").lower() == "default"

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
        configured_value = self[LOOKUP_COMPACT_MAX_INTERVAL]
        trigger = self.compaction_trigger
        return 2 * trigger if configured_value is None else max(configured_value, trigger)

    @property
    def sort_spill_threshold(self) -> int:
        """``sort-spill-threshold``; reading a run takes 4 MB, so a few runs need no spill."""
        configured_value = self[SORT_SPILL_THRESHOLD]
        return max(32, self.stop_trigger + 1) if configured_value is None else configured_value

    def compacts_fully_after(self, epoch: int) -> bool:
        """Return whether ``full-compaction.delta-commits`` is due; never in write-only jobs."""
        epoch_count = self[FULL_COMPACTION_DELTA_COMMITS]
        if epoch_count is None and self.producer.writes_on_full_compaction:
            epoch_count = 1
        return bool(epoch_count and (epoch + 1) % epoch_count == 0) and not self[WRITE_ONLY]

    def waits_for_compaction(self, *, merges_by_key: bool) -> bool:
        """Return whether each epoch waits for its compactions."""
        if self[COMMIT_FORCE_COMPACT] or self[PREPARE_COMMIT_WAIT_COMPACTION]:
            return True
        return merges_by_key and self.looks_up and self[LOOKUP_WAIT] and not self[WRITE_ONLY]

    @property
    def write_only_stop_trigger(self) -> int:
        """``write-only.stop-trigger``, and more than the trigger of another job's compaction."""
        configured_value = self[WRITE_ONLY_STOP_TRIGGER]
        if configured_value is None:
            return 10 * self.stop_trigger
        return max(configured_value, self.compaction_trigger + 1)
