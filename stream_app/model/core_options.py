"""Every table option once: key, type, default and meaning.

Keys and defaults are Paimon's (`CoreOptions.java`, 1.4), so a table's options mean the same to
every engine. `CoreOptions` is the parsed view of a table's options; `check_options` is called at
start, before anything is written.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from stream_app.errors import UnsupportedTableError, UsageError

_BYTES = {"": 1, "b": 1, "bytes": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10}
_BYTES |= {"m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}
_BYTES |= {"t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40}
_MILLIS = {"ms": 1, "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000}
_MILLIS |= {"": 1, "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000}
_MILLIS |= {"h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000}
_MILLIS |= {"d": 86_400_000, "day": 86_400_000, "days": 86_400_000}

Value = int | bool | str | float | None


def parse_memory_size(text: str) -> int:
    """``128 mb`` → bytes; units are powers of 1024 as in Paimon's `MemorySize`."""
    return _with_unit(text, _BYTES, "a size such as '128 mb'")


def parse_duration_ms(text: str) -> int:
    """``5 min`` → milliseconds."""
    return _with_unit(text, _MILLIS, "a duration such as '5 min'")


def _with_unit(text: str, units: Mapping[str, int], expected: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if not found or found[2] not in units:
        raise ValueError(f"is not {expected}")
    return int(found[1]) * units[found[2]]


def _integer(text: str) -> int:
    try:
        return int(text.strip())
    except ValueError:
        raise ValueError("is not a whole number") from None


def _real(text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise ValueError("is not a number") from None


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return lowered == "true"


def _text(text: str) -> str:
    return text.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option: `parse` turns its text into a value, `only` names the values we support.

    `minimum` bounds numbers; `immutable` options may not change once a table has snapshots.
    """

    key: str
    parse: Callable[[str], Value]
    default: Value
    meaning: str
    kind: str
    minimum: int | None = None
    only: tuple[str, ...] = ()
    immutable: bool = False

    def read(self, options: Mapping[str, str]) -> Value:
        """The option's value in `options`, or its default.

        Raises:
            UsageError: the text is no value of this option.
        """
        text = options.get(self.key)
        if text is None:
            return self.default
        try:
            value = self.parse(text)
        except ValueError as problem:
            raise UsageError(
                f"option {self.key!r}: {text!r} {problem}", fix=f"{self.key}: {self.meaning}"
            ) from None
        if self.minimum is not None and isinstance(value, int | float) and value < self.minimum:
            raise UsageError(
                f"option {self.key!r}: {text} is below the least value {self.minimum}",
                fix=f"{self.key}: {self.meaning}",
            )
        if self.only and str(value).lower() not in self.only:
            raise UsageError(
                f"option {self.key!r}: {text!r} is not supported",
                fix=f"use one of: {', '.join(self.only)}",
            )
        return value


def _int(key: str, default: int | None, meaning: str, *, minimum: int = 0) -> Option:
    return Option(
        key=key, parse=_integer, default=default, meaning=meaning, kind="integer", minimum=minimum
    )


def _size(key: str, default: str | None, meaning: str) -> Option:
    value = None if default is None else parse_memory_size(default)
    return Option(
        key=key, parse=parse_memory_size, default=value, meaning=meaning, kind="size", minimum=1
    )


def _duration(key: str, default: str | None, meaning: str) -> Option:
    value = None if default is None else parse_duration_ms(default)
    return Option(key=key, parse=parse_duration_ms, default=value, meaning=meaning, kind="duration")


def _bool(key: str, default: bool, meaning: str) -> Option:
    return Option(key=key, parse=_boolean, default=default, meaning=meaning, kind="boolean")


def _enum(key: str, default: str | None, meaning: str, *only: str) -> Option:
    return Option(key=key, parse=_text, default=default, meaning=meaning, kind="text", only=only)


OPTIONS: dict[str, Option] = {
    option.key: option
    for option in (
        Option(
            key="bucket",
            parse=_integer,
            default=-1,
            kind="integer",
            minimum=-2,
            immutable=True,
            meaning="Number of buckets of each partition. stream_app needs a fixed number (≥ 1).",
        ),
        Option(
            key="bucket-key",
            parse=_text,
            default=None,
            kind="text",
            immutable=True,
            meaning="Columns that choose the bucket, comma separated; default: the primary key "
            "without the partition columns.",
        ),
        _enum("bucket-function.type", "default", "Hash that chooses the bucket.", "default"),
        _enum("merge-engine", "deduplicate", "How rows of one key are merged.", "deduplicate"),
        Option(
            key="sequence.field",
            parse=_text,
            default=None,
            kind="text",
            meaning="Columns (comma separated) that decide which version of a key is the newest, "
            "before the order of arrival; nulls are the oldest.",
        ),
        _enum(
            "sequence.field.sort-order",
            "ascending",
            "Which sequence.field value is the newest: "
            "the largest (ascending) or the smallest (descending).",
            "ascending",
            "descending",
        ),
        _enum(
            "changelog-producer",
            "none",
            "Whether changelog files are written: none, or input (every change as it came in).",
            "none",
            "input",
        ),
        _bool("ignore-delete", False, "Drop -D and -U records before they are written."),
        _bool("ignore-update-before", False, "Drop -U records before they are written."),
        _enum("file.format", "parquet", "Format of new data files.", "parquet"),
        _enum(
            "file.compression",
            "zstd",
            "Codec of data files.",
            "zstd",
            "none",
            "uncompressed",
            "gzip",
            "lz4",
            "snappy",
        ),
        _int("file.compression.zstd-level", 1, "zstd level of data files.", minimum=1),
        _size("file.block-size", None, "Bytes of a Parquet row group (Paimon: 128 mb)."),
        _bool("data-file.thin-mode", False, "Leave out the _KEY_ columns of data files."),
        _enum("manifest.format", "avro", "Format of manifests.", "avro"),
        _enum("manifest.compression", "zstd", "Codec of manifests.", "zstd", "none", "deflate"),
        _size("manifest.target-file-size", "8 mb", "Size at which manifests are merged."),
        _int("manifest.merge-min-count", 30, "Small manifests that trigger a merge.", minimum=1),
        _size(
            "manifest.full-compaction-threshold-size",
            "16 mb",
            "Size of small or changed manifests that triggers rewriting all of them.",
        ),
        _enum("metadata.stats-mode", "truncate(16)", "Column statistics kept in manifests."),
        _bool("metadata.stats-dense-store", True, "Leave columns without statistics out."),
        _size("target-file-size", "128 mb", "A new data file is begun at this size."),
        _size("write-buffer-size", "256 mb", "Memory of one bucket's write buffer."),
        _bool("write-buffer-spillable", True, "Spill sorted runs to local disk when it is full."),
        _size("write-buffer-spill.max-disk-size", None, "Disk that a buffer may use to spill."),
        _int(
            "num-sorted-run.compaction-trigger",
            5,
            "Sorted runs of a bucket that trigger a compaction.",
            minimum=1,
        ),
        _int(
            "num-sorted-run.stop-trigger",
            None,
            "Sorted runs of a bucket beyond which its writes wait (default: trigger + 3).",
            minimum=1,
        ),
        _int(
            "num-levels", None, "Levels of a bucket's LSM tree (default: trigger + 1).", minimum=2
        ),
        _int(
            "compaction.max-size-amplification-percent",
            200,
            "Size of all runs but the oldest, in percent of the oldest, that triggers a full "
            "compaction.",
        ),
        _int(
            "compaction.size-ratio",
            1,
            "Percent by which the next run may be larger and still be picked.",
        ),
        _bool(
            "compaction.force-rewrite-all-files", False, "A full compaction rewrites every file."
        ),
        _bool("write-only", False, "This job does not compact; another one must."),
        _bool(
            "prepare-commit.wait-compaction",
            False,
            "Each epoch waits for its compactions before it commits.",
        ),
        _int(
            "compaction.max-parallelism",
            None,
            "Compaction units that run at a time (default: half of Spark's default parallelism, "
            "at least 1).",
            minimum=1,
        ),
        _int("commit.max-retries", 10, "Attempts after a lost commit race."),
        _duration("commit.timeout", None, "Time after which a commit is given up."),
        _duration("commit.min-retry-wait", "10 ms", "First wait after a lost commit race."),
        _duration("commit.max-retry-wait", "10 s", "Longest wait after a lost commit race."),
        _enum("commit.user-prefix", None, "Put before the commit user's name."),
        _enum(
            "partition.default-name",
            "__DEFAULT_PARTITION__",
            "Directory of null and empty partition values.",
        ),
        _bool("partition.legacy-name", True, "Name DATE partitions by their day number."),
        _enum("data-file.prefix", "data-", "First part of data file names."),
        _enum("changelog-file.prefix", "changelog-", "First part of changelog file names."),
        _size("source.split.target-size", "128 mb", "Size of a read split."),
        _size("source.split.open-file-cost", "4 mb", "Least size a file counts with in a split."),
    )
}
"""The options that stream_app reads."""

CARRIED_PREFIXES = (
    "scan.",
    "consumer.",
    "consumer-id",
    "snapshot.",
    "changelog.",
    "tag.",
    "sink.",
    "source.",
    "continuous.",
    "streaming-read-",
    "streaming.",
    "read.",
    "parquet.",
    "metastore.",
    "end-input.",
    "async-file-write",
    "cache-page-size",
    "page-size",
    "local-sort.",
    "sort-",
    "spill-",
    "lookup",
    "incremental-between",
    "delete.",
    "dynamic-partition-overwrite",
    "overwrite-upgrade",
    "partition.",
    "type",
    "path",
    "file-index.",
    "zorder.",
    "write-max-writers-to-spill",
    "compaction.total-size-threshold",
    "compaction.optimization-interval",
    "compaction.file-size",
    "compaction.min.file-num",
    "compaction.delete-ratio-threshold",
    "compaction.offpeak",
    "compaction.incremental-size-threshold",
    "full-compaction.delta-commits",
    "auto-create",
    "write-manifest-cache",
    "write-buffer-for-append",
    "manifest.",
    "alter-column",
    "file.",
    "dynamic-bucket.",
    "primary-key",
    "owner",
    "deletion-vector.",
    "row-deduplicate",
    "changelog-producer.row-deduplicate",
    "commit.force-compact",
    "commit.",
    "local-merge-buffer-size",
    "num-sorted-run.",
    "disable-explicit-type-casting",
)
"""Options of Paimon for other engines or later versions: stored with the table, not acted on."""

_REFUSED: dict[str, Callable[[str], bool]] = {
    "deletion-vectors.enabled": lambda value: value.lower() == "true",
    "row-tracking.enabled": lambda value: value.lower() == "true",
    "data-evolution.enabled": lambda value: value.lower() == "true",
    "chain-table.enabled": lambda value: value.lower() == "true",
    "rowkind.field": bool,
    "data-file.external-paths": bool,
    "data-file.path-directory": bool,
    "index-file-in-data-file-dir": lambda value: value.lower() == "true",
    "pk-clustering-override": lambda value: value.lower() == "true",
    "lock.enabled": lambda value: value.lower() == "true",
    "record-level.expire-time": bool,
    "file.format.per.level": bool,
    "file.compression.per.level": bool,
}
"""Options that change what a correct writer must do and that we do not implement."""


def option_problems(options: Mapping[str, str]) -> list[str]:
    """What is wrong with a set of table options: unknown keys (with the nearest), bad values."""
    problems = []
    for key, value in options.items():
        option = OPTIONS.get(key)
        if option is not None:
            try:
                option.read(options)
            except UsageError as error:
                problems.append(f"{error.what} ({error.fix})" if error.fix else error.what)
        elif key in _REFUSED:
            if _REFUSED[key](value):
                problems.append(f"option {key!r} = {value!r} is not supported by stream_app")
        elif not key.startswith((*CARRIED_PREFIXES, "fields.")):
            problems.append(unknown_key("option", key, OPTIONS))
    return problems


def unknown_key(what: str, key: str, known: Iterable[str]) -> str:
    """``unknown option 'bukket'; did you mean 'bucket'?``"""
    nearest = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
    return f"unknown {what} {key!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def check_writable(options: Mapping[str, str]) -> None:
    """Refuse a table whose options demand of a writer what we do not do.

    Unknown options of an existing table are kept, not refused: Paimon itself validated them.

    Raises:
        UnsupportedTableError: names every option that stands in the way.
    """
    reasons = [
        f"{key} = {options[key]}"
        for key, is_set in _REFUSED.items()
        if key in options and is_set(options[key])
    ]
    for key in ("merge-engine", "changelog-producer", "bucket-function.type", "file.format"):
        try:
            OPTIONS[key].read(options)
        except UsageError:
            reasons.append(f"{key} = {options[key]}")
    if reasons:
        raise UnsupportedTableError(
            "stream_app cannot write this table: " + ", ".join(reasons),
            fix="write it with the engine that made it, or use a table without these options",
        )


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """A table's options, read by name. Bytes for sizes, milliseconds for durations."""

    raw: Mapping[str, str]

    def integer(self, key: str) -> int:
        """The value of an option that always has one."""
        value = OPTIONS[key].read(self.raw)
        assert isinstance(value, int), key
        return value

    def optional_integer(self, key: str) -> int | None:
        """The value of an option that may be unset."""
        value = OPTIONS[key].read(self.raw)
        assert value is None or isinstance(value, int), key
        return value

    def boolean(self, key: str) -> bool:
        """The value of a switch."""
        value = OPTIONS[key].read(self.raw)
        assert isinstance(value, bool), key
        return value

    def text(self, key: str) -> str:
        """The value of a text option; empty when it has none."""
        value = OPTIONS[key].read(self.raw)
        return "" if value is None else str(value)

    def columns(self, key: str) -> tuple[str, ...]:
        """The value of an option that lists columns."""
        return tuple(part.strip() for part in self.text(key).split(",") if part.strip())

    @property
    def bucket(self) -> int:
        """Number of buckets (``bucket``)."""
        return self.integer("bucket")

    @property
    def compaction_trigger(self) -> int:
        """``num-sorted-run.compaction-trigger``."""
        return self.integer("num-sorted-run.compaction-trigger")

    @property
    def stop_trigger(self) -> int:
        """``num-sorted-run.stop-trigger``; never below the compaction trigger."""
        configured = self.optional_integer("num-sorted-run.stop-trigger")
        trigger = self.compaction_trigger
        return trigger + 3 if configured is None else max(configured, trigger)

    @property
    def num_levels(self) -> int:
        """``num-levels``; the highest level is one less."""
        configured = self.optional_integer("num-levels")
        return self.compaction_trigger + 1 if configured is None else configured

    @property
    def writes_changelog(self) -> bool:
        """Whether ``changelog-producer`` is ``input``."""
        return self.text("changelog-producer") == "input"

    @property
    def compaction_file_size(self) -> int:
        """Files below this size are rewritten rather than upgraded: 70 % of the target."""
        return self.integer("target-file-size") // 10 * 7
