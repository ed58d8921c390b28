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
from stream_app.app.config.config_keys import config_key, config_key_family
from stream_app.app.config.values import Setting, WrongValueError
from stream_app.cdc.column_drift import INEXACT, JSON_AS, TYPE_MAPPING
from stream_app.cdc.json_records.json_options import SOURCE_COLUMN_OPTIONS, TRUNCATE_OPTION
from stream_app.model.near_names import unknown_name
from stream_app.model.source.mapping_options import (
    InexactTimes,
    JsonColumns,
    MappingOptions,
    parse_mapping_options,
)
from stream_app.model.source.source_renames import RenameReaction
from stream_app.planning.schema.column_renames import RENAMES
from stream_app.planning.sync.new_tables import Names, TableOverrides, TableRules
from stream_app.planning.sync.target_tables import SyncRules

TABLE_FORMAT_KEYS = {
    option.key: values.one_of(*option.only) if option.only else values.text
    for option in (*SOURCE_COLUMN_OPTIONS, TRUNCATE_OPTION)
    if option.key not in (TYPE_MAPPING, INEXACT, JSON_AS)
}
"""Options of the format that can be set for one table."""
TABLE_KEYS: Mapping[str, Callable[[Setting], Names | str]] = {
    "primary-keys": values.any_names,
    "partition-keys": values.any_names,
    "computed-column": values.any_definitions,
    "metadata-column": values.any_names,
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
    """Section ``[sync]``: the tables of a job of many tables, and how they follow the source."""

    warehouse: str = config_key(
        values.text,
        "",
        meaning="The folder of all databases; a table is `WAREHOUSE/DATABASE.db/NAME`.",
        required="with `[sync]`",
    )
    database: str = config_key(values.identifier, "default", meaning="The database of all tables.")
    including_tables: str = config_key(
        values.regular_expression,
        ".*",
        meaning="A regular expression that must match the whole name of a source table.",
    )
    excluding_tables: str | None = config_key(
        values.regular_expression,
        None,
        meaning="A regular expression for source tables that the job leaves out; it "
        "outweighs `including-tables`.",
    )
    including_dbs: str = config_key(
        values.regular_expression,
        ".*",
        meaning="A regular expression that must match the whole name of a source database. A "
        "message that does not name its database passes.",
    )
    excluding_dbs: str | None = config_key(
        values.regular_expression,
        None,
        meaning="A regular expression for source databases that the job leaves out; it "
        "outweighs `including-dbs`.",
    )
    table_prefix: str = config_key(
        values.text,
        "",
        meaning="A text before the name of each table, unless `table-mapping` or "
        "`table-prefix-db` names it.",
    )
    table_suffix: str = config_key(
        values.text,
        "",
        meaning="A suffix of each table's name, unless `table-mapping` or "
        "`table-suffix-db` names it.",
    )
    table_prefix_db: Mapping[str, str] = config_key_family(
        "table-prefix-db.", meaning="The prefix of the tables of a source database."
    )
    table_suffix_db: Mapping[str, str] = config_key_family(
        "table-suffix-db.", meaning="The suffix of the tables of a source database."
    )
    table_mapping: Mapping[str, str] = config_key_family(
        "table-mapping.",
        meaning="The name of the table for a source table, which is `table`, or "
        "`database.table` to distinguish shards. It outweighs prefix and suffix.",
    )
    merge_shards: bool = config_key(
        values.boolean,
        True,
        meaning="`true`: tables of one name in several databases become one table. `false`: "
        "each table is named `DATABASE_TABLE`.",
    )
    case_sensitive: bool = config_key(
        values.boolean,
        True,
        meaning="`false`: names of tables and columns become lower case "
        "([databases](setup/databases.md#which-tables-are-taken-and-their-names)).",
    )
    primary_keys: Names = config_key(
        values.some_names,
        (),
        meaning="The primary key of each table that has all of these columns; other tables "
        "get the key of the source.",
    )
    partition_keys: Names = config_key(
        values.some_names,
        (),
        meaning="The partition keys of each table that has all of these columns.",
    )
    multiple_table_partition_keys: Mapping[str, Names] = config_key_family(
        "multiple-table-partition-keys.",
        convert=lambda setting, _table: values.any_names(setting),
        meaning="The partition keys of a table, by the name of its source table; they "
        "outweigh `partition-keys`.",
    )
    sync_primary_keys_from_source_schema: bool = config_key(
        values.boolean,
        True,
        meaning="Whether a table without `primary-keys` gets the key of the source.",
    )
    type_mapping: Names = config_key(
        values.some_names,
        (),
        meaning="How types of the source become types of columns, such as "
        "`tinyint1-not-bool`, `to-nullable`, `to-string`.",
    )
    inexact: InexactTimes = config_key(
        values.member_of(InexactTimes),
        InexactTimes.NUMBER,
        meaning="The type of columns for times of day with more than milliseconds, which "
        "Paimon's TIME cannot hold ([schemas](setup/schemas.md#types-that-paimon-cannot-hold)).",
    )
    json_as: JsonColumns = config_key(
        values.member_of(JsonColumns),
        JsonColumns.STRING,
        meaning="The type of columns for documents ([schemas](setup/schemas.md#variant)).",
    )
    computed_column: Names = config_key(
        values.definitions,
        (),
        meaning="Columns computed from others, for each table that has these, such as "
        "`dt=date_format(created, yyyy-MM-dd)` ([functions](setup/computed-columns.md)).",
    )
    metadata_column: Names = config_key(
        values.some_names,
        (),
        meaning="Columns for facts that a message has beside its row, for each table, such "
        "as `op_ts` and `offset` ([metadata](setup/computed-columns.md#metadata-columns)).",
    )
    metadata_column_prefix: str = config_key(
        values.text, "", meaning="A text before the name of each metadata column."
    )
    filter: str | None = config_key(
        values.text,
        None,
        meaning="The condition that rows must meet, for each table that has its columns "
        "([filters](setup/computed-columns.md#filters)).",
    )
    renames: RenameReaction = config_key(
        values.member_of(RenameReaction),
        RenameReaction.FOLLOW,
        meaning="The reaction of a table whose source has renamed a column: `follow`, "
        "`new-column` or `hold` ([renamed columns](setup/schemas.md#renamed-columns)).",
    )
    transactions: SourceTransactions = config_key(
        values.member_of(SourceTransactions),
        SourceTransactions.IGNORED,
        meaning="`whole`: epochs end between [transactions](setup/transactions.md).",
    )
    max_tables: int = config_key(
        values.integer(1),
        1000,
        meaning="The maximum number of tables that the job creates; it quarantines messages "
        "of more tables.",
    )
    options: Mapping[str, str] = config_key_family(
        "options.", meaning="Options of Paimon for all tables, below."
    )
    tables: Mapping[str, TableSetting] = config_key_family(
        "tables.",
        convert=table_setting,
        meaning="Keys of one table, by its name: `NAME.primary-keys`, `NAME.partition-keys`, "
        "`NAME.computed-column`, `NAME.metadata-column`, `NAME.metadata-column-prefix`, "
        "`NAME.filter`, `NAME.renames`, `NAME.unknown-columns`, `NAME.missing-columns`, "
        "`NAME.narrowed-columns`, `NAME.column-aliases`, `NAME.truncate`, `NAME.options.…`. "
        "These outweigh everything else.",
    )

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
            copies_source_keys=self.sync_primary_keys_from_source_schema,
            options=self.options,
            table_overrides={name: self._rules_of(name) for name in self.named_tables()},
        )

    @property
    def mapping_options(self) -> MappingOptions:
        """The options that map the source's types to types of columns."""
        return parse_mapping_options(
            self.type_mapping,
            inexact=self.inexact,
            json_columns=self.json_as,
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

    def named_tables(self) -> list[str]:
        """Return the tables that have settings of their own."""
        return list(dict.fromkeys(key.partition(".")[0] for key in self.tables))

    def _rules_of(self, name: str) -> TableOverrides:
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

        return TableOverrides(
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
