"""The message format that fills a table of a job, as the job's configuration says."""

from __future__ import annotations

import functools

from stream_app.app.config.source_config import SourceConfig
from stream_app.app.config.tables_of_job import TablesOfJob
from stream_app.app.tables.format_setup import (
    evolution_rules,
    format_setup,
    table_format,
    without_narrowed,
)
from stream_app.cdc.formats import origins_in
from stream_app.cdc.insert_only import InsertOnly
from stream_app.cdc.message_format import MessageFormat
from stream_app.cdc.own_table import OwnTable, SourceChoice
from stream_app.model.options.table_options import IGNORE_DELETE
from stream_app.table.file_store_table import FileStoreTable


def own_table(source: SourceConfig, messages: MessageFormat, choice: SourceChoice) -> OwnTable:
    """A format that sets aside what is of other source tables than a job's own."""
    origins = functools.partial(origins_in, source.format, source.format_options)
    return OwnTable(messages=messages, origins=origins, choice=choice)


def job_format(
    tables: TablesOfJob,
    table: FileStoreTable,
    *,
    sets_aside: bool = False,
    restores: bool = False,
    takes_narrowed: bool = False,
) -> MessageFormat:
    """The message format that fills a table, as the job's configuration says.

    Args:
        sets_aside: whether changes that need a primary key are bad records; else they are errors.
        restores: whether rows may leave unchanged values out, which their writer finds.
        takes_narrowed: whether columns may be narrowed, whatever the configuration says.
    """
    schema, source = table.schema, tables.source_of(table.location)
    of_table = tables.rules_of(table.location, schema.fields)
    rules = evolution_rules(source, of_table.made)
    setup = format_setup(source, of_table, schema, rules, restores=restores)
    decode = table_format(source, of_table, schema, setup)
    if not takes_narrowed:
        decode = without_narrowed(decode, source, table, of_table.made)
    if schema.kind.merges_by_key:
        return decode
    return InsertOnly(
        messages=decode,
        sets_aside=sets_aside,
        ignores_deletes=table.options[IGNORE_DELETE],
    )
