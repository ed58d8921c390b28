"""Refuses tables that stream_app would read wrongly, and warns of unknown parts of a table.

`model.options.option_support` decides about each option.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from stream_app.errors import UnsupportedTableError
from stream_app.model.options.core_options import check_purpose, unknown_options
from stream_app.model.options.file_options import DATA_EVOLUTION_ENABLED
from stream_app.model.options.option_support import Purpose
from stream_app.model.schema.merge.merge_problems import merge_problems
from stream_app.model.traits.merge_engine import MERGE_ENGINES
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


def check_readable(table: FileStoreTable, *, merges_rows: bool) -> None:
    """Refuse a table whose rows stream_app would read wrongly.

    Args:
        merges_rows: whether the read merges the rows of each key; otherwise it shows the rows of
            files.

    Raises:
        UnsupportedTableError: the error names every obstacle.
    """
    options = table.schema.options
    table_problems = []
    engine = table.options.merge_engine
    if merges_rows and table.kind_traits.merges_by_key and engine not in MERGE_ENGINES:
        table_problems.append(f"merge-engine = {engine}")
    elif merges_rows and table.kind_traits.merges_by_key:
        table_problems += merge_problems(table.schema.fields, table.schema.primary_keys, options)
    if table.kind_traits.merges_by_key and table.schema.joins_files:
        table_problems.append(f"{DATA_EVOLUTION_ENABLED.key} = true with a primary key")
    check_purpose(options, Purpose.READ, table_problems, table.location)


def check_changes_readable(table: FileStoreTable) -> None:
    """Refuse a table whose changes stream_app would read wrongly.

    Raises:
        UnsupportedTableError: as `check_readable`; or an update of some columns of older rows may
            be in a file of these columns alone.
    """
    check_readable(table, merges_rows=False)
    if table.schema.joins_files:
        raise UnsupportedTableError(
            f"{DATA_EVOLUTION_ENABLED.key} = true: a file may hold some columns of older rows, "
            "which were not written as rows",
            where=table.location,
            fix="read whole versions, or read the changes with Paimon's own readers",
        )


def warn_of_unknown(table: FileStoreTable) -> None:
    """Log the unknown parts of a table's schema, if there are any."""
    warn_of_unknown_parts(table, "options", unknown_options(table.schema.options))
    warn_of_unknown_parts(table, "fields of its schema", table.schema.unknown_fields)


def warn_of_unknown_parts(
    table: FileStoreTable, parts: str, unknown_names: Collection[str]
) -> None:
    """Log unknown parts of a table by name, if there are any."""
    if unknown_names:
        _LOG.warning(
            "%s has %s that stream_app does not know: %s; if they change what its rows mean, "
            "read it with Paimon's own readers",
            table.location,
            parts,
            ", ".join(unknown_names),
        )
