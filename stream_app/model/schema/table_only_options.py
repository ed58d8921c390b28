"""Lists options that only the table may set, and detects contradicting job configurations.

All readers and writers of a table must place and merge rows alike, so these options come from the
table's schema. A job whose configuration has another value for one of them does not start.

Source: Paimon `schema/SchemaManager.java#checkAlterTableOption`; `CoreOptions.java` (the options
marked immutable).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stream_app.model.options.bucket_options import BUCKET_KEY
from stream_app.model.options.core_options import OPTIONS, CoreOptions, option_named
from stream_app.model.options.merge_options import COLUMN_OPTIONS, SEQUENCE_FIELD
from stream_app.model.options.option import BOOLEAN, COLUMN_PREFIX, is_on, is_true
from stream_app.model.options.paimon_option_keys import CORE_KEYS
from stream_app.model.schema.merge.merge_rules import (
    DEFAULT_FUNCTION,
    configured_function,
    nested_key,
)
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.merge_engine import traits_of

IMMUTABLE_OPTIONS = frozenset(
    {
        *("aggregation.remove-record-on-delete", "blob-descriptor-field", "blob-field"),
        *("blob-view-field", "bucket-function.type", "bucket-key", "data-evolution.enabled"),
        *("data-file.path-directory", "dynamic-bucket.initial-buckets", "force-lookup"),
        *("history", "history.is-current", "history.sequence", "history.untracked-columns"),
        *("history.valid-from", "history.valid-to"),
        *("index-file-in-data-file-dir", "merge-engine", "partial-update.remove-record-on-delete"),
        *("partial-update.remove-record-on-sequence-group", "partition", "pk-clustering-override"),
        *("primary-key", "primary-key.nullable", "row-tracking.enabled", "rowkind.field"),
        *("sequence.snapshot-ordering", "type"),
    }
)
"""Options that cannot change in a table with snapshots."""

_FILE_OPTIONS = frozenset(
    {
        *("bucket", "changelog-producer", "data-file.thin-mode", "deletion-vectors.enabled"),
        *("partition.default-name", "partition.legacy-name"),
        *("sequence.field", "sequence.field.sort-order"),
    }
)
"""Options that may be altered; a running writer then ends, because its files have the old value."""

_ROW_OPTIONS = frozenset({"ignore-delete", "record-level.expire-time", "record-level.time-field"})
"""Options that may be altered; a running writer takes the new value."""

_PREFIXES = (COLUMN_PREFIX, "sequence.", "partial-update.", "aggregation.")

ENDING_OPTIONS = tuple(key for key in OPTIONS if key in IMMUTABLE_OPTIONS | _FILE_OPTIONS)
"""Options whose change ends the jobs that write the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDifference:
    """An option that only the table may set, with another value in the configuration.

    Attributes:
        table_value: the value in the schema; None if the default applies.
        configured_value: the value in the configuration.
    """

    key: str
    table_value: str | None
    configured_value: str

    def __str__(self) -> str:
        value = "its default" if self.table_value is None else self.table_value
        return f"option {self.key!r} is {value} in the table, {self.configured_value} is configured"


def is_tables_own(key: str) -> bool:
    """Return whether only the table may set this option, under any of its names."""
    option = option_named(key)
    name = key if option is None else option.key
    return name in IMMUTABLE_OPTIONS | _FILE_OPTIONS | _ROW_OPTIONS or name.startswith(_PREFIXES)


def option_differences(
    schema: TableSchema, configured_options: Mapping[str, str]
) -> list[OptionDifference]:
    """Return the contradictions between a configuration and the table.

    Raises:
        UsageError: a text is not a value of its option.
    """
    options = schema.options
    differences = []
    for key, value in configured_options.items():
        if not is_tables_own(key) or _has_same_meaning(schema, key, value):
            continue
        option = option_named(key)
        names = (key,) if option is None else (option.key, *option.older_keys)
        table_value = next((options[name] for name in names if name in options), None)
        differences.append(
            OptionDifference(key=names[0], table_value=table_value, configured_value=value)
        )
    return differences


def _has_same_meaning(schema: TableSchema, key: str, value: str) -> bool:
    """Return whether a configured value has the meaning of the table's effective value."""
    options = schema.options
    configured_options = {key: value}
    if (option := option_named(key)) is BUCKET_KEY:
        return schema.bucket_keys == CoreOptions(configured_options).columns(BUCKET_KEY)
    if option is SEQUENCE_FIELD:
        return schema.sequence_fields == CoreOptions(configured_options).columns(SEQUENCE_FIELD)
    if option is not None:
        return bool(option.read(options) == option.read(configured_options))
    if key.startswith(COLUMN_PREFIX):
        return _column_rule(options, key) == _column_rule({**options, **configured_options}, key)
    if CORE_KEYS.get(key) is BOOLEAN:  # all default to false
        return is_on(options, key) == is_true(value)
    return options.get(key) == value


def _column_rule(options: Mapping[str, str], key: str) -> object:
    """Return the effective rule of a column's option, or its default."""
    column, _, setting = key.removeprefix(COLUMN_PREFIX).rpartition(".")
    if setting == "nested-key":
        return nested_key(options, column)
    if setting == "aggregate-function" or key == DEFAULT_FUNCTION:
        engine = traits_of(CoreOptions(options).merge_engine)
        return configured_function(options, column) or engine.default_function
    option = COLUMN_OPTIONS.get(setting)
    return options.get(key) if option is None else option.of(column).read(options)


def with_configured(
    options: Mapping[str, str], configured_options: Mapping[str, str]
) -> dict[str, str]:
    """Return a job's options: configured ones override those that others than the table may set."""
    return {
        **options,
        **{key: value for key, value in configured_options.items() if not is_tables_own(key)},
    }
