"""Makes the schema of a new table of a database, from descriptions of its source tables.

`database_tables` creates the table. The format describes columns, and `planning.sync` chooses keys,
partitions and options.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping

import pyarrow as pa

from stream_app.app.config.job_tables.applicable_rules import check_made_keys, columns_with_made
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.cdc.lower_case_names import Describe, LowerCaseDescriber
from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.model.schema.data_type import DataField, RowType
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_renames import NO_RENAMES, SourceRenames
from stream_app.model.source.source_table import SourceTable, merged_source_table, with_aliases
from stream_app.planning.schema.column_renames import options_of_renamed, renames_in_new_table
from stream_app.planning.sync.new_tables import new_table

_LOG = logging.getLogger(__name__)


class NoColumnsError(UsageError):
    """No message describes a column of a source table."""

    def __init__(self) -> None:
        super().__init__(
            "no message of this epoch describes a column of the table",
            fix="replay the record after the job has created the table from later messages",
        )


def database_table_schema(
    job_tables: WholeDatabase,
    name: str,
    sources: Mapping[Origin, SourceTable],
    clock: Clock,
    renames: SourceRenames = NO_RENAMES,
) -> TableSchema:
    """Return the schema of a new table, from the descriptions of its source tables.

    A column that the source renamed between these messages gets its later name.

    Raises:
        UsageError: there is no description, or the described columns do not suffice for the table.
    """
    sync_config = job_tables.sync
    if not sources:
        raise NoColumnsError
    source_table = functools.reduce(merged_source_table, sources.values())
    aliases = renames_in_new_table(
        [column.name for column in source_table.columns],
        source_table.primary_keys,
        renames.of(list(sources)),
    )
    source_table = with_aliases(source_table, aliases)
    columns = RowType(
        tuple(
            DataField(
                field_id=field_id,
                name=column.name,
                data_type=column.data_type,
                description=column.comment,
            )
            for field_id, column in enumerate(source_table.columns)
        )
    )
    columns, inapplicable_rules = columns_with_made(sync_config, name, columns)
    layout = new_table(
        sync_config.table_rules, name, min(sources), columns.names, source_table.primary_keys
    )
    check_made_keys(sync_config, name, columns, layout.primary_keys)
    for remark in (*inapplicable_rules, *layout.remarks):
        _LOG.info("the table %s: %s", name, remark)
    return new_table_schema(
        columns=columns,
        primary_keys=layout.primary_keys,
        partition_keys=layout.partition_keys,
        options={**layout.options, **options_of_renamed(aliases)},
        time_ms=clock.now_ms(),
    )


def described_sources(
    job_tables: WholeDatabase, batches: Mapping[Origin, pa.RecordBatch]
) -> Mapping[Origin, SourceTable]:
    """Return the descriptions of source tables, each made from some of its messages.

    A source table that its messages do not describe is left out.
    """
    describe: Describe = job_tables.source.source_extractor.describe
    if job_tables.lowers_names:
        describe = LowerCaseDescriber(describe)
    options = job_tables.mapping_options
    descriptions = {origin: describe(batch, options) for origin, batch in batches.items()}
    return {origin: table for origin, table in descriptions.items() if table is not None}
