"""The columns of a job's tables beside those of its source: what is lost, as messages show it.

Reads a few messages from both ends of each topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from stream_app.app.config.tables_of_job import SingleTable, TablesOfJob
from stream_app.app.ops.doctor.observation import Observation, fine, warning
from stream_app.app.source.preflight import TopicInfo
from stream_app.app.tables.first_messages import first_messages_of_all
from stream_app.app.tables.seen_tables import read_alone, seen_tables
from stream_app.cdc.column_drift import INEXACT
from stream_app.cdc.lowered_decode import Describe, LoweredDescription
from stream_app.cdc.source_tables import of_each_origin
from stream_app.errors import TableNotFoundError
from stream_app.model.schema.origin import Origin
from stream_app.model.schema.source_table import SourceTable
from stream_app.planning.sync.column_remarks import (
    TableRemark,
    remarks_of_existing,
    remarks_of_new,
)
from stream_app.planning.sync.partition_roots import PUBLISH_FIX, partition_roots, root_warning
from stream_app.table.opening import open_table

_PART = "columns"


def columns_of_source(
    tables: TablesOfJob, topics: Mapping[str, TopicInfo]
) -> Iterator[Observation]:
    """What the messages show of each table; nothing where the broker was not asked."""
    if not topics:
        return
    messages = first_messages_of_all(tables.source, topics)
    parts = dict(of_each_origin(tables.reader.origins, messages))
    is_quiet = True
    for origin, part in parts.items():
        for remark in _remarks(tables, origin, part):
            is_quiet = False
            remedy = remark.remedy(tables.full_key)
            yield warning(_PART, f"{origin}: {remark.what()}", remedy)
    for root, leaves in partition_roots(seen_tables(parts)).items():
        is_quiet = False
        yield warning(_PART, root_warning(root, leaves), PUBLISH_FIX)
    if parts and is_quiet:
        yield fine(_PART, f"some messages of {len(parts)} source tables lose nothing")


def _remarks(tables: TablesOfJob, origin: Origin, part: pa.RecordBatch) -> Iterable[TableRemark]:
    location, reader, options = tables.target(origin), tables.reader, tables.mapping_options
    if location is None:
        return
    describe: Describe = reader.describe
    if tables.lowers_names:
        describe = LoweredDescription(describe)
    description = describe(part, options)
    if description is not None:
        yield from _beside_table(tables, location, description)
    yield from read_alone(reader, part, options)


def _beside_table(
    tables: TablesOfJob, location: str, description: SourceTable
) -> Iterable[TableRemark]:
    try:
        table = open_table(location, file_io_options=tables.file_system)
    except TableNotFoundError:
        if not isinstance(tables, SingleTable):
            return remarks_of_new(description.columns)
        columns = tables.table.columns
        ids = frozenset(field.field_id for field in columns)
        return remarks_of_existing(description, columns, ids, inexact=INEXACT)
    first = table.schemas.schema(min(table.schemas.ids()))
    ids = frozenset(field.field_id for field in first.fields)
    return remarks_of_existing(description, table.schema.fields, ids, inexact=INEXACT)
