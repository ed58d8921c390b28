"""Which options the table alone says, and where a job's configuration says something else.

Every reader and writer of a table places and merges rows alike, so these options come from the
table's schema. A job whose configuration has another value of one does not start.

Source: Paimon `schema/SchemaManager.java#checkAlterTableOption`; `CoreOptions.java` (the options
marked immutable).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.model.options.core_options import OPTIONS, option_named

IMMUTABLE_OPTIONS = frozenset(
    {
        *("aggregation.remove-record-on-delete", "blob-descriptor-field", "blob-field"),
        *("blob-view-field", "bucket-function.type", "bucket-key", "data-evolution.enabled"),
        *("data-file.path-directory", "dynamic-bucket.initial-buckets", "force-lookup"),
        *("index-file-in-data-file-dir", "merge-engine", "partial-update.remove-record-on-delete"),
        *("partial-update.remove-record-on-sequence-group", "partition", "pk-clustering-override"),
        *("primary-key", "primary-key.nullable", "row-tracking.enabled", "rowkind.field"),
        *("sequence.snapshot-ordering", "type"),
    }
)
"""A table with snapshots keeps them."""

_OF_FILES = frozenset(
    {
        *("bucket", "changelog-producer", "data-file.thin-mode", "deletion-vectors.enabled"),
        *("partition.default-name", "partition.legacy-name"),
        *("sequence.field", "sequence.field.sort-order"),
    }
)
"""They may be altered; a writer that runs then ends, because its files are of the old value."""

_OF_ROWS = frozenset({"ignore-delete", "record-level.expire-time", "record-level.time-field"})
"""They may be altered; a writer that runs takes the new value."""

_FAMILIES = ("fields.", "sequence.", "partial-update.", "aggregation.")

ENDING_OPTIONS = tuple(key for key in OPTIONS if key in IMMUTABLE_OPTIONS | _OF_FILES)
"""Options whose change ends the jobs that write the table."""

_DEFAULTS_OF_FIELDS = {"ignore-retract": "false", "distinct": "false", "list-agg-delimiter": ","}


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDifference:
    """An option of the table alone, of which the configuration has another value.

    Attributes:
        in_table: as the schema has it; None: the default holds.
        configured: as the configuration has it.
    """

    key: str
    in_table: str | None
    configured: str

    def __str__(self) -> str:
        there = "its default" if self.in_table is None else self.in_table
        return f"option {self.key!r} is {there} in the table, {self.configured} is configured"


def is_tables_own(key: str) -> bool:
    """Whether the table alone says this option; also by an older name of it."""
    option = option_named(key)
    name = key if option is None else option.key
    return name in IMMUTABLE_OPTIONS | _OF_FILES | _OF_ROWS or name.startswith(_FAMILIES)


def option_differences(
    of_table: Mapping[str, str], configured: Mapping[str, str]
) -> list[OptionDifference]:
    """Where a configuration contradicts the table; an option that it does not name is the table's.

    Raises:
        UsageError: a text is no value of its option.
    """
    found = []
    for key, value in configured.items():
        if not is_tables_own(key) or _meaning(of_table, key) == _meaning({key: value}, key):
            continue
        option = option_named(key)
        names = (key,) if option is None else (option.key, *option.older_keys)
        there = next((of_table[name] for name in names if name in of_table), None)
        found.append(OptionDifference(key=names[0], in_table=there, configured=value))
    return found


def _meaning(options: Mapping[str, str], key: str) -> object:
    """The value of an option, or its default, such that equal values mean the same."""
    if (option := option_named(key)) is not None:
        return option.read(options)
    what = key.rpartition(".")[2]
    text = options.get(key, _DEFAULTS_OF_FIELDS.get(what) if key.startswith("fields.") else None)
    is_switch = _DEFAULTS_OF_FIELDS.get(what) == "false"
    return text.lower() if text is not None and is_switch else text


def with_configured(of_table: Mapping[str, str], configured: Mapping[str, str]) -> dict[str, str]:
    """The options of a job: the configured ones have priority, but in what the table alone says."""
    return {
        **of_table,
        **{key: value for key, value in configured.items() if not is_tables_own(key)},
    }
