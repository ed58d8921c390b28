"""Section ``[sync]`` of the configuration, for a whole database in tables of one warehouse.

Its keys have the names and meanings of Paimon's action ``kafka_sync_database``. `planning.sync` has
the rules.

Source: Paimon `flink/action/cdc/SyncDatabaseActionBase.java`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields

from stream_app.app.config import values
from stream_app.app.config.values import Setting, WrongValueError
from stream_app.cdc.column_drift import INEXACT, JSON_AS, TYPE_MAPPING
from stream_app.cdc.json_records.options import COLUMN_OPTIONS, TRUNCATE_OPTION
from stream_app.model.near_names import unknown_name
from stream_app.model.renames.source_renames import RenameReaction
from stream_app.model.source.mapping_options import (
    InexactTimes,
    JsonColumns,
    MappingOptions,
    parse_mapping_options,
)
from stream_app.planning.schema.column_renames import RENAMES
from stream_app.planning.sync.new_tables import Names, OneTable, TableRules
from stream_app.planning.sync.target_tables import SyncRules

TABLE_FORMAT_KEYS = {
    option.key: values.one_of(*option.only) if option.only else values.text
    for option in (*COLUMN_OPTIONS, TRUNCATE_OPTION)
    if option.key not in (TYPE_MAPPING, INEXACT, JSON_AS)
}
"""Options of the format that can be set for one table."""
TABLE_KEYS: Mapping[str, Callable[[Setting], Names | str]] = {
    "primary-keys": values.names,
    "partition-keys": values.names,
    "computed-column": values.any_definitions,
    "metadata-column": values.names,
    "metadata-column-prefix": values.free_text,
    "filter": values.text,
    RENAMES: values.one_of(*(reaction.value for reaction in RenameReaction)),
    **TABLE_FORMAT_KEYS,
}
"""Keys of ``[sync.tables.NAME]``, beside its options."""
_OPTIONS = "options."


class SourceTransactions(enum.Enum):
    """The treatment of the source's transactions.

    Attributes:
        IGNORED: an epoch may end in the middle of a transaction.
        WHOLE: an epoch ends between transactions, and all tables get a database snapshot.
    """

    IGNORED = "ignored"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class TableSetting:
    """One setting under ``sync.tables.NAME.``: a list of names, or the text of an option."""

    value: Names | str


def table_setting(setting: Setting, key: str) -> TableSetting:
    """Convert a value of a key under ``sync.tables.NAME.``.

    Raises:
        WrongValueError: the key is unknown, or its value is invalid.
    """
    _, dot, rest = key.partition(".")
    if rest in TABLE_KEYS:
        return TableSetting(TABLE_KEYS[rest](setting))
    if rest.startswith(_OPTIONS):
        return TableSetting(values.free_text(setting))
    if not dot:
        raise WrongValueError("must be a table, such as [sync.tables.orders]")
    raise WrongValueError(unknown_name("key", rest, [*TABLE_KEYS, "options.…"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncConfig:
    """Section ``[sync]``.

    Attributes:
        type_mapping: options of Paimon's ``type-mapping``.
        computed_column, metadata_column, filter: as in ``[table]``, for each table that has the
            columns that they name.
        renames: the tables' reaction when their source renames a column.
        transactions: whether epochs end only between the source's transactions.
        max_tables: the maximum number of tables that the job creates; messages of more tables are
            quarantined.
        options: the options of all tables.
        tables: settings of one table, such as ``NAME.primary-keys`` and ``NAME.options.KEY``.
    """

    warehouse: str = values.key(values.text, "")
    database: str = values.key(values.identifier, "default")
    including_tables: str = values.key(values.regular_expression, ".*")
    excluding_tables: str | None = values.key(values.regular_expression, None)
    including_dbs: str = values.key(values.regular_expression, ".*")
    excluding_dbs: str | None = values.key(values.regular_expression, None)
    table_prefix: str = values.key(values.text, "")
    table_suffix: str = values.key(values.text, "")
    table_prefix_db: Mapping[str, str] = values.key_family("table-prefix-db.")
    table_suffix_db: Mapping[str, str] = values.key_family("table-suffix-db.")
    table_mapping: Mapping[str, str] = values.key_family("table-mapping.")
    merge_shards: bool = values.key(values.boolean, True)
    case_sensitive: bool = values.key(values.boolean, True)
    primary_keys: Names = values.key(values.some_names, ())
    partition_keys: Names = values.key(values.some_names, ())
    multiple_table_partition_keys: Mapping[str, Names] = values.key_family(
        "multiple-table-partition-keys.", read=lambda setting, _table: values.names(setting)
    )
    sync_primary_keys_from_source_schema: bool = values.key(values.boolean, True)
    type_mapping: Names = values.key(values.some_names, ())
    inexact: InexactTimes = values.key(values.member(InexactTimes), InexactTimes.NUMBER)
    json_as: JsonColumns = values.key(values.member(JsonColumns), JsonColumns.STRING)
    computed_column: Names = values.key(values.definitions, ())
    metadata_column: Names = values.key(values.some_names, ())
    metadata_column_prefix: str = values.key(values.text, "")
    filter: str | None = values.key(values.text, None)
    renames: RenameReaction = values.key(values.member(RenameReaction), RenameReaction.FOLLOW)
    transactions: SourceTransactions = values.key(
        values.member(SourceTransactions), SourceTransactions.IGNORED
    )
    max_tables: int = values.key(values.integer(1), 1000)
    options: Mapping[str, str] = values.key_family("options.")
    tables: Mapping[str, TableSetting] = values.key_family("tables.", read=table_setting)

    @property
    def rules(self) -> SyncRules:
        """The rules that select source tables and name their targets."""
        names = [rule.name for rule in fields(SyncRules) if rule.name != "share"]
        return SyncRules(**{name: getattr(self, name) for name in names})

    @property
    def table_rules(self) -> TableRules:
        """The rules for new tables."""
        return TableRules(
            primary_keys=self.cased(self.primary_keys),
            partition_keys=self.cased(self.partition_keys),
            multiple_table_partition_keys={
                name: self.cased(keys) for name, keys in self.multiple_table_partition_keys.items()
            },
            sync_primary_keys_from_source_schema=self.sync_primary_keys_from_source_schema,
            options=self.options,
            tables={name: self._rules_of(name) for name in self.named_tables()},
        )

    @property
    def mapping_options(self) -> MappingOptions:
        """The options that map the source's types to types of columns."""
        return parse_mapping_options(
            self.type_mapping,
            inexact=self.inexact,
            documents=self.json_as,
            where="sync.type-mapping",
        )

    def path(self, name: str) -> str:
        """Return a table's path, as Paimon's file-system catalog has it."""
        return f"{self.warehouse.rstrip('/')}/{self.database}.db/{name}"

    def cased(self, names: Iterable[str]) -> Names:
        """Return column names in the case that the tables use."""
        return tuple(name if self.case_sensitive else name.lower() for name in names)

    def format_options_of(self, name: str) -> Mapping[str, str]:
        """Return the format's options for one table."""
        settings = {key: self.tables.get(f"{name}.{key}") for key in TABLE_FORMAT_KEYS}
        return {key: str(setting.value) for key, setting in settings.items() if setting is not None}

    def renames_of(self, name: str) -> RenameReaction:
        """Return how a table reacts when its source renames a column."""
        setting = self.tables.get(f"{name}.{RENAMES}")
        return self.renames if setting is None else RenameReaction(setting.value)

    def name_of(self, location: str) -> str:
        """Return a table's name, which is the last part of its folder's path."""
        return location.rstrip("/").rpartition("/")[2]

    def named_tables(self) -> list[str]:
        """Return the tables that have settings of their own."""
        return list(dict.fromkeys(key.partition(".")[0] for key in self.tables))

    def _rules_of(self, name: str) -> OneTable:
        """Return the rules of a table that has settings of its own."""
        settings = {
            key.removeprefix(f"{name}."): setting.value
            for key, setting in self.tables.items()
            if key.startswith(f"{name}.")
        }

        def names_of(key: str) -> Names | None:
            value = settings.get(key)
            return value if isinstance(value, tuple) else None

        def cased_names(key: str) -> Names | None:
            return None if (names := names_of(key)) is None else self.cased(names)

        def text_of(key: str) -> str | None:
            value = settings.get(key)
            return value if isinstance(value, str) else None

        return OneTable(
            primary_keys=cased_names("primary-keys"),
            partition_keys=cased_names("partition-keys"),
            computed_column=names_of("computed-column"),
            metadata_column=names_of("metadata-column"),
            metadata_column_prefix=text_of("metadata-column-prefix"),
            filter=text_of("filter"),
            options={
                key.removeprefix(_OPTIONS): str(value)
                for key, value in settings.items()
                if key.startswith(_OPTIONS)
            },
        )
