"""Decides whether the rows of a table can be compared with those of its source.

A check, a first load and a backfill call it.
"""

from __future__ import annotations

from stream_app.app.config.table_config import TableConfig
from stream_app.model.options.compaction_options import RECORD_LEVEL_EXPIRE_TIME
from stream_app.model.schema.table_schema import TableSchema
from stream_app.model.traits.merge_engine import traits_of


def why_incomparable(schema: TableSchema, table_config: TableConfig) -> str:
    """Return why no row of a table can be compared; empty if rows can be compared."""
    options = schema.core_options
    if not schema.kind_traits.merges_by_key:
        return "rows of a table without a primary key cannot be matched"
    if not table_config.made_columns.is_repeatable:
        return "its rows contain the time of decoding (now())"
    if schema.history is not None:
        return "its rows are versions (history = true), and messages have changes"
    if options[RECORD_LEVEL_EXPIRE_TIME] is not None:
        return "rows of the table expire"
    if not traits_of(options.merge_engine).keeps_newest:
        return f"rows are merged by merge-engine = {options.merge_engine}"
    if options.hides_level0:
        return "rows of level 0 are not read before they are compacted"
    return ""
