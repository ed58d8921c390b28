"""Section ``[sync]``: a whole database into tables of one warehouse.

Names and meanings are those of Paimon's action ``kafka_sync_database``. `planning.sync` has the
rules.

Source: Paimon `flink/action/cdc/SyncDatabaseActionBase.java`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stream_app.app.config.values import (
    Setting,
    WrongValueError,
    any_definitions,
    boolean,
    definitions,
    free_text,
    identifier,
    integer,
    names,
    one_of,
    regular_expression,
    some_names,
    text,
)
from stream_app.cdc.alike.options import TRUNCATE, TRUNCATE_OPTION
from stream_app.cdc.column_drift import (
    COLUMN_ALIASES,
    CUT_REACTIONS,
    CUT_VALUES,
    NARROWED_COLUMNS,
    NARROWED_REACTIONS,
    DriftKind,
    Reaction,
)
from stream_app.model.near_names import unknown_name
from stream_app.model.schema.mapping_options import Inexact, MappingOptions, parse_mapping_options
from stream_app.planning.sync.new_tables import Names, OneTable, TableRules
from stream_app.planning.sync.target_tables import SyncRules

SYNC_KEYS: Mapping[str, Callable[[Setting], object]] = {
    "warehouse": text,
    "database": identifier,
    "including-tables": regular_expression,
    "excluding-tables": regular_expression,
    "including-dbs": regular_expression,
    "excluding-dbs": regular_expression,
    "table-prefix": text,
    "table-suffix": text,
    "merge-shards": boolean,
    "case-sensitive": boolean,
    "primary-keys": some_names,
    "partition-keys": some_names,
    "sync-primary-keys-from-source-schema": boolean,
    "type-mapping": some_names,
    "inexact": one_of(*(each.value for each in Inexact)),
    "computed-column": definitions,
    "metadata-column": some_names,
    "metadata-column-prefix": text,
    "filter": text,
    "max-tables": integer(1),
}
SYNC_PREFIXES: Mapping[str, str] = {
    "table-mapping.": "table_mapping",
    "table-prefix-db.": "table_prefix_db",
    "table-suffix-db.": "table_suffix_db",
    "multiple-table-partition-keys.": "multiple_table_partition_keys",
    "options.": "options",
    "tables.": "tables",
}
OF_ONE_TABLE: Mapping[str, Callable[[Setting], Names | str]] = {
    "primary-keys": names,
    "partition-keys": names,
    "computed-column": any_definitions,
    "metadata-column": names,
    "metadata-column-prefix": free_text,
    "filter": text,
    DriftKind.UNKNOWN.option: one_of(*(each.value for each in Reaction)),
    DriftKind.MISSING.option: one_of(
        *(each.value for each in Reaction if each is not Reaction.EVOLVE)
    ),
    NARROWED_COLUMNS: one_of(*NARROWED_REACTIONS),
    CUT_VALUES: one_of(*CUT_REACTIONS),
    COLUMN_ALIASES: text,
    TRUNCATE: one_of(*TRUNCATE_OPTION.values),
}
"""Keys of ``[sync.tables.NAME]``, beside its options."""
FORMAT_OPTIONS = (
    DriftKind.UNKNOWN.option, DriftKind.MISSING.option, NARROWED_COLUMNS, CUT_VALUES,
    COLUMN_ALIASES, TRUNCATE
)  # fmt: skip
"""Options of the format that a table may have for itself."""
_OPTIONS = "options."


@dataclass(frozen=True, slots=True)
class OneSetting:
    """A value under ``sync.tables.NAME.``: names, or an option's text."""

    value: Names | str


def of_one_table(setting: Setting, key: str) -> OneSetting:
    """A value under ``sync.tables.NAME.``.

    Raises:
        WrongValueError: there is no such key, or the value does not fit it.
    """
    _, dot, rest = key.partition(".")
    if rest in OF_ONE_TABLE:
        return OneSetting(OF_ONE_TABLE[rest](setting))
    if rest.startswith(_OPTIONS):
        return OneSetting(free_text(setting))
    if not dot:
        raise WrongValueError("must be a table, such as [sync.tables.orders]")
    raise WrongValueError(unknown_name("key", rest, [*OF_ONE_TABLE, "options.…"]))


def _none() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncConfig:
    """Section ``[sync]``.

    Attributes:
        type_mapping: options of Paimon's ``type-mapping``.
        inexact: a value of `Inexact`.
        computed_column, metadata_column, filter: as in ``[table]``, of each table that has the
            columns which they name.
        max_tables: so many tables the job makes; messages of others go to the quarantine.
        options: of all tables.
        tables: ``NAME.primary-keys``, ``NAME.options.KEY`` and so on, of one table.
    """

    warehouse: str = ""
    database: str = "default"
    including_tables: str = ".*"
    excluding_tables: str | None = None
    including_dbs: str = ".*"
    excluding_dbs: str | None = None
    table_prefix: str = ""
    table_suffix: str = ""
    table_prefix_db: Mapping[str, str] = field(default_factory=_none)
    table_suffix_db: Mapping[str, str] = field(default_factory=_none)
    table_mapping: Mapping[str, str] = field(default_factory=_none)
    merge_shards: bool = True
    case_sensitive: bool = True
    primary_keys: Names = ()
    partition_keys: Names = ()
    multiple_table_partition_keys: Mapping[str, Names] = field(default_factory=dict)
    sync_primary_keys_from_source_schema: bool = True
    type_mapping: Names = ()
    inexact: str = Inexact.NUMBER.value
    computed_column: Names = ()
    metadata_column: Names = ()
    metadata_column_prefix: str = ""
    filter: str | None = None
    max_tables: int = 1000
    options: Mapping[str, str] = field(default_factory=_none)
    tables: Mapping[str, OneSetting] = field(default_factory=dict)

    @property
    def rules(self) -> SyncRules:
        """Which tables are taken, and how they are named."""
        return SyncRules(
            including_tables=self.including_tables,
            excluding_tables=self.excluding_tables,
            including_dbs=self.including_dbs,
            excluding_dbs=self.excluding_dbs,
            table_prefix=self.table_prefix,
            table_suffix=self.table_suffix,
            table_prefix_db=self.table_prefix_db,
            table_suffix_db=self.table_suffix_db,
            table_mapping=self.table_mapping,
            merge_shards=self.merge_shards,
            case_sensitive=self.case_sensitive,
        )

    @property
    def table_rules(self) -> TableRules:
        """How new tables are made."""
        return TableRules(
            primary_keys=self.cased(self.primary_keys),
            partition_keys=self.cased(self.partition_keys),
            multiple_table_partition_keys={
                name: self.cased(keys) for name, keys in self.multiple_table_partition_keys.items()
            },
            sync_primary_keys_from_source_schema=self.sync_primary_keys_from_source_schema,
            options=self.options,
            tables={name: self._one(name) for name in self.named()},
        )

    @property
    def mapping_options(self) -> MappingOptions:
        """How the source's types become types of columns."""
        return parse_mapping_options(
            self.type_mapping, inexact=self.inexact, where="sync.type-mapping"
        )

    def path(self, name: str) -> str:
        """Where a table lies, as Paimon's file-system catalog names it."""
        return f"{self.warehouse.rstrip('/')}/{self.database}.db/{name}"

    def cased(self, names: Iterable[str]) -> Names:
        """Names of columns as the tables have them."""
        return tuple(name if self.case_sensitive else name.lower() for name in names)

    def format_options_of(self, name: str) -> Mapping[str, str]:
        """Options of the format that are given for one table."""
        given = {key: self.tables.get(f"{name}.{key}") for key in FORMAT_OPTIONS}
        return {key: str(one.value) for key, one in given.items() if one is not None}

    def name_of(self, location: str) -> str:
        """The name of a table by its folder."""
        return location.rstrip("/").rpartition("/")[2]

    def named(self) -> list[str]:
        """The tables of which something is said alone."""
        return list(dict.fromkeys(key.partition(".")[0] for key in self.tables))

    def _one(self, name: str) -> OneTable:
        own = {
            key.removeprefix(f"{name}."): each.value
            for key, each in self.tables.items()
            if key.startswith(f"{name}.")
        }

        def some(key: str) -> Names | None:
            found = own.get(key)
            return found if isinstance(found, tuple) else None

        def one(key: str) -> str | None:
            found = own.get(key)
            return found if isinstance(found, str) else None

        return OneTable(
            primary_keys=None if (keys := some("primary-keys")) is None else self.cased(keys),
            partition_keys=None if (keys := some("partition-keys")) is None else self.cased(keys),
            computed_column=some("computed-column"),
            metadata_column=some("metadata-column"),
            metadata_column_prefix=one("metadata-column-prefix"),
            filter=one("filter"),
            options={
                key.removeprefix(_OPTIONS): str(value)
                for key, value in own.items()
                if key.startswith(_OPTIONS)
            },
        )
