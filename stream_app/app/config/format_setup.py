"""Configuration and table → what the message format is made from."""

from __future__ import annotations

from stream_app.app.config.app_config import SourceConfig
from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.message_format import FormatSetup
from stream_app.format.arrow_schema import arrow_schema
from stream_app.model.schema.table_schema import TableSchema


def format_setup(source: SourceConfig, schema: TableSchema) -> FormatSetup:
    """The setup of the source's format for a table."""
    return FormatSetup(
        columns=schema.fields,
        arrow_schema=arrow_schema(schema.fields),
        primary_keys=schema.primary_keys,
        options=source.format_options,
        keep_update_before=schema.core_options.writes_changelog,
        traits=TableTraits(
            sequence_fields=schema.sequence_fields,
            ignores_deletes=schema.core_options.boolean("ignore-delete"),
            merges_shards=source.merge_shards,
        ),
    )
