"""A job takes a newer schema of its table, which another engine, a person or the job itself made.

The options of the job's configuration hold for every schema; those that the table alone says are
the newest schema's.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from stream_app.errors import UnsupportedTableError
from stream_app.model.schema.tables_own_options import with_configured
from stream_app.planning.commit.schema_conflict import adoption_conflict
from stream_app.planning.schema.schema_diff import schema_differences
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)
_BUCKET = "bucket"


def newest_version(table: FileStoreTable) -> FileStoreTable:
    """The table as its newest schema has it; the very same one if that is the table's already.

    Raises:
        UnsupportedTableError: a job of the older schema cannot go on by it.
    """
    ours, schemas = table.schema, table.schemas
    # One request tells it: numbers of schemas have no gaps.
    if not table.file_io.exists(schemas.path(ours.schema_id + 1)):
        return table
    newest = schemas.latest()
    assert newest is not None, "a newer one than ours is there"
    stored = schemas.schema(ours.schema_id)
    problem = adoption_conflict(stored, newest, table.configured)
    if problem is not None:
        raise UnsupportedTableError(
            f"the job cannot go on by the table's schema {newest.schema_id}: {problem}",
            where=schemas.path(newest.schema_id),
            fix="take the change back, or start the job again with a configuration that fits it",
        )
    for difference in schema_differences(stored, newest):
        _LOG.info("schema %d of %s: %s", newest.schema_id, table.location, difference)
    options = with_configured(newest.options, table.configured)
    if _BUCKET in ours.options:  # another number is for partitions that are rescaled
        options[_BUCKET] = ours.options[_BUCKET]
    return replace(table, schema=replace(newest, options=options))
