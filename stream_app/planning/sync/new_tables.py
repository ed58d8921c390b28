"""Decides the keys and options of a table that a job creates for a source table.

Source: Paimon `flink/action/cdc/CdcActionCommonUtils.java` (buildPaimonSchema),
`flink/sink/cdc/NewTableSchemaBuilder.java`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.errors import UsageError
from stream_app.model.options.bucket_options import BUCKET, PARTITION_LOOKUP
from stream_app.model.options.merge_options import CHANGELOG_PRODUCER, SEQUENCE_FIELD
from stream_app.model.source.origin import Origin

Names = tuple[str, ...]
_NEEDS_KEY = (BUCKET.key, CHANGELOG_PRODUCER.key, SEQUENCE_FIELD.key)
"""Options for all tables that apply only to those with a primary key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOverrides:
    """The settings of one table, which override those for all tables; None where those apply."""

    primary_keys: Names | None = None
    partition_keys: Names | None = None
    computed_column: Names | None = None
    metadata_column: Names | None = None
    metadata_column_prefix: str | None = None
    filter: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The rules for new tables.

    Attributes:
        primary_keys, partition_keys: the keys of each table that has all of these columns.
        multiple_table_partition_keys: name of a source table → its partition keys, if it has the
            columns.
        copies_source_keys: whether other tables get the source's key.
        options: the options of all tables.
        table_overrides: name of a table → the settings that it has of its own.
    """

    primary_keys: Names = ()
    partition_keys: Names = ()
    multiple_table_partition_keys: Mapping[str, Names] = field(default_factory=dict)
    copies_source_keys: bool = True
    options: Mapping[str, str] = field(default_factory=dict)
    table_overrides: Mapping[str, TableOverrides] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """The keys and options of a new table.

    Attributes:
        remarks: texts about settings for all tables that do not fit this one.
    """

    primary_keys: Names
    partition_keys: Names
    options: Mapping[str, str]
    remarks: Sequence[str] = ()


def new_table(
    rules: TableRules, name: str, origin: Origin, columns: Collection[str], source_key: Names
) -> NewTable:
    """Return the keys and options of the table `name`.

    Keys for all tables apply if the table has their columns. Keys of one table must be columns.

    Args:
        source_key: the key of the source table; empty without one.

    Raises:
        UsageError: keys of ``sync.tables.NAME`` are not columns of the table.
    """
    table_overrides = rules.table_overrides.get(name, TableOverrides())
    primary = _KeySetting("primary-keys", table_overrides.primary_keys, rules.primary_keys)
    source_partition_keys = rules.multiple_table_partition_keys.get(origin.table, ())
    partition = _KeySetting(
        "partition-keys",
        table_overrides.partition_keys,
        source_partition_keys or rules.partition_keys,
    )
    primary_keys, partition_keys = primary.keys(name, columns), partition.keys(name, columns)
    if primary_keys is None:
        primary_keys = source_key if rules.copies_source_keys else ()
    common_options = options_for(primary_keys, rules.options)
    remarks = [
        *primary.remarks(columns),
        *partition.remarks(columns),
        *(
            f"{key} = {value} does not apply: the table has no primary key"
            for key, value in rules.options.items()
            if key not in common_options and key not in table_overrides.options
        ),
    ]
    if not partition_keys:
        common_options = {
            key: text for key, text in common_options.items() if key != PARTITION_LOOKUP.key
        }
    options = {**common_options, **table_overrides.options}
    return NewTable(
        primary_keys=primary_keys,
        partition_keys=partition_keys or (),
        options=options,
        remarks=remarks,
    )


def options_for(primary_keys: Names, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options for all tables that apply to a table with this primary key."""
    if primary_keys:
        return options
    return {key: value for key, value in options.items() if key not in _NEEDS_KEY}


@dataclass(frozen=True, slots=True)
class _KeySetting:
    """A setting of keys for a new table.

    Attributes:
        table_keys: the keys in the table's own settings; None if the keys for all tables apply.
        common_keys: the keys for all tables; empty without any.
    """

    name: str
    table_keys: Names | None
    common_keys: Names

    def keys(self, table_name: str, columns: Collection[str]) -> Names | None:
        """Return the keys that apply; None without keys, or if the table lacks a common key."""
        missing_names = self._missing_keys(columns)
        if self.table_keys is None:
            return self.common_keys if self.common_keys and not missing_names else None
        if missing_names:
            raise UsageError(
                f"sync.tables.{table_name}.{self.name} names {', '.join(missing_names)}, "
                "which is not a column",
                where=f"the messages have {', '.join(columns)}",
                fix="name columns of the source table",
            )
        return self.table_keys

    def remarks(self, columns: Collection[str]) -> Sequence[str]:
        """Return the remark that the common keys do not apply; empty if they do."""
        missing_names = self._missing_keys(columns)
        if self.table_keys is not None or not missing_names:
            return []
        keys_text = ", ".join(self.common_keys)
        missing_text = ", ".join(missing_names)
        return [f"{self.name} = {keys_text} does not apply: there is no column {missing_text}"]

    def _missing_keys(self, columns: Collection[str]) -> Sequence[str]:
        names = self.common_keys if self.table_keys is None else self.table_keys
        return [key for key in names if key not in columns]
