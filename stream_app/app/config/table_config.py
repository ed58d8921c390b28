"""Section ``[table]`` of the configuration: the table, its made columns, and its filter of rows.

`app_config` reads it, and also checks combinations of keys.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass

from stream_app.app.config import values
from stream_app.app.config.config_keys import config_key, config_key_family
from stream_app.cdc.computed.column_definition import DefinitionError
from stream_app.cdc.computed.made_columns import (
    MadeColumns,
    MetadataError,
    key_problems,
    made_columns_of,
)
from stream_app.cdc.computed.metadata_columns import METADATA
from stream_app.cdc.message_format import FormatDeclaration
from stream_app.errors import UsageError
from stream_app.format.arrow_schema import arrow_type
from stream_app.model.options.core_options import option_problems
from stream_app.model.schema.data_type import RowType
from stream_app.model.schema.history_columns import (
    HistoryColumns,
    history_columns,
    keys_of_versions,
)
from stream_app.model.schema.table_schema import schema_problems
from stream_app.predicate.parser import parse_predicate

_HISTORY = "options.history"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableConfig:
    """Section ``[table]``: the table of a job of one table; its `options` are Paimon's."""

    warehouse: str = config_key(
        values.text,
        "",
        meaning="The folder of all databases; the table is `WAREHOUSE/DATABASE.db/NAME`.",
        required="with `[table]`",
    )
    database: str = config_key(values.identifier, "default", meaning="The table's database.")
    name: str = config_key(
        values.identifier, "", meaning="The table's name.", required="with `[table]`"
    )
    branch: str = config_key(
        values.identifier,
        "",
        meaning="The branch that the job writes, made by `stream-app branch create`; absent: "
        "the main branch.",
    )
    columns: RowType = config_key(
        values.columns,
        RowType(()),
        meaning="`name TYPE [NOT NULL]`, comma separated, as in SQL; also [nested "
        "types](setup/schemas.md#nested-columns).",
        required="with `[table]`",
    )
    primary_keys: tuple[str, ...] = config_key(
        values.some_names,
        (),
        meaning="Columns that identify a row; they become NOT NULL. Absent: an append table, "
        "which takes inserts alone.",
    )
    partition_keys: tuple[str, ...] = config_key(
        values.any_names,
        (),
        meaning="Columns whose values divide the table into folders. With a primary key they "
        "must be part of it.",
    )
    computed_columns: tuple[str, ...] = config_key(
        values.definitions,
        (),
        meaning="Columns computed from others, such as `dt=date_format(created, yyyy-MM-dd)` "
        "([functions](setup/computed-columns.md)).",
    )
    metadata_columns: tuple[str, ...] = config_key(
        values.some_names,
        (),
        meaning="Columns for facts that a message has beside its row: `database_name`, "
        "`schema_name`, `table_name`, `op_ts`, `topic`, `partition`, `offset`, `timestamp`.",
    )
    metadata_column_prefix: str = config_key(
        values.text, "", meaning="A text before the name of each metadata column."
    )
    filter: str | None = config_key(
        values.text,
        None,
        meaning="The condition that rows of the table must meet, such as `status <> 'draft'` "
        "([filters](setup/computed-columns.md#filters)).",
    )
    comment: str | None = config_key(values.text, None, meaning="The comment of a new table.")
    options: Mapping[str, str] = config_key_family("options.", meaning="Options of Paimon, below.")

    @property
    def path(self) -> str:
        """The table's path, as Paimon's file-system catalog has it, with its branch."""
        branch = f"$branch_{self.branch}" if self.branch else ""
        return f"{self.warehouse.rstrip('/')}/{self.database}.db/{self.name}{branch}"

    @property
    def history(self) -> HistoryColumns | None:
        """The columns of a table that keeps every version of a row; else None."""
        return history_columns(self.options)

    @property
    def made_columns(self) -> MadeColumns:
        """The columns that the job computes, because no message has them."""
        made_columns = MadeColumns()
        if self.computed_columns or self.metadata_columns:
            made_columns = made_columns_of(
                self.computed_columns, self.metadata_columns, self.metadata_column_prefix
            )
        return made_columns if self.history is None else made_columns.with_history(self.history)

    @property
    def all_columns(self) -> RowType:
        """The table's columns, including the made ones."""
        return (
            self.made_columns.columns(self.columns, arrow_type)
            if self.made_columns
            else self.columns
        )


def table_problems(
    table_config: TableConfig, declaration: FormatDeclaration, given_keys: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for the section.

    Args:
        declaration: the format of the messages.
        given_keys: the keys of the whole configuration.
    """
    for key, meaning in (
        ("table.warehouse", "the folder of all databases"),
        ("table.name", "the table's name"),
        ("table.columns", "such as 'id BIGINT NOT NULL, name STRING'"),
    ):
        if key not in given_keys:
            yield key, f"is missing: {meaning}"
    wrong_options = [
        (f"table.options.{key}", problem)
        for key, value in table_config.options.items()
        for problem in option_problems({key: value})
    ]
    yield from wrong_options
    if any(key.startswith(f"table.{_HISTORY}") for key, _ in wrong_options):
        return
    all_columns = (
        (yield from _made_columns(table_config, declaration))
        if table_config.columns.fields
        else None
    )
    # The remaining keys are still checked, together with valid columns and options.
    keys_fit = bool(table_config.primary_keys) or "table.primary-keys" not in given_keys
    if all_columns is None or wrong_options or not keys_fit:
        return
    keys, options = keys_of_versions(
        table_config.primary_keys, table_config.partition_keys, table_config.options
    )
    for problem in schema_problems(all_columns, keys, table_config.partition_keys, options):
        yield "table", problem


def missing_metadata(
    where: str, keys: Iterable[str], declaration: FormatDeclaration
) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for metadata that the format's messages do not have."""
    for key in keys:
        if not declaration.has_times and key in METADATA and METADATA[key].needs_time:
            yield where, f"messages of {declaration.name} have no {key!r}"


def _made_columns(
    table_config: TableConfig, declaration: FormatDeclaration
) -> Generator[tuple[str, str], None, RowType | None]:
    """Yield problems of the made columns. Return all columns, or None if they cannot be made."""
    if table_config.metadata_column_prefix and not table_config.metadata_columns:
        yield "table.metadata-column-prefix", "needs table.metadata-columns"
    yield from missing_metadata(
        "table.metadata-columns", table_config.metadata_columns, declaration
    )
    if table_config.history is not None:
        yield from missing_metadata(
            f"table.{_HISTORY}.sequence", [table_config.history.sequence], declaration
        )
    try:
        all_columns = table_config.all_columns
        if table_config.primary_keys:
            for problem in key_problems(table_config.made_columns, table_config.primary_keys):
                yield "table", problem
        yield from _filter_problems(table_config.filter, all_columns)
        return all_columns
    except MetadataError as error:
        yield "table.metadata-columns", str(error)
    except DefinitionError as error:
        yield "table.computed-columns", str(error)
    return None


def _filter_problems(condition: str | None, columns: RowType) -> Iterator[tuple[str, str]]:
    try:
        if condition is not None:
            parse_predicate(condition, columns)
    except UsageError as error:
        yield "table.filter", f"{error.problem} ({error.fix})"
