"""The columns of a job's tables beside those of its source: what is lost, as messages show it.

Reads a few messages from both ends of each topic.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from stream_app.app.config.app_config import AppConfig
from stream_app.app.ops.doctor.observation import Observation, fine, warning
from stream_app.app.source.preflight import TopicInfo
from stream_app.app.tables.first_messages import first_messages_of_all
from stream_app.app.tables.format_setup import full_key
from stream_app.app.tables.seen_tables import read_alone, seen_tables
from stream_app.cdc.column_drift import INEXACT
from stream_app.cdc.lowered_decode import LoweredDescription
from stream_app.cdc.source_tables import of_each_origin
from stream_app.errors import TableNotFoundError
from stream_app.message_formats import source_reader
from stream_app.model.schema.mapping_options import NO_MAPPING_OPTIONS
from stream_app.model.schema.origin import Origin
from stream_app.model.schema.source_table import SourceTable
from stream_app.planning.sync.column_remarks import (
    TableRemark,
    remarks_of_existing,
    remarks_of_new,
)
from stream_app.planning.sync.partition_roots import PUBLISH_FIX, partition_roots, root_warning
from stream_app.planning.sync.target_tables import Target, decide
from stream_app.table.opening import open_table

_PART = "columns"


def columns_of_source(config: AppConfig, topics: Mapping[str, TopicInfo]) -> Iterator[Observation]:
    """What the messages show of each table; nothing where the broker was not asked."""
    if not topics:
        return
    messages = first_messages_of_all(config.source, topics)
    reader = source_reader(config.source.format, config.source.format_options)
    parts = dict(of_each_origin(reader.origins, messages))
    is_quiet = True
    for origin, part in parts.items():
        for remark in _remarks(config, origin, part):
            is_quiet = False
            remedy = remark.remedy(functools.partial(full_key, config))
            yield warning(_PART, f"{origin}: {remark.what()}", remedy)
    for root, leaves in partition_roots(seen_tables(parts)).items():
        is_quiet = False
        yield warning(_PART, root_warning(root, leaves), PUBLISH_FIX)
    if parts and is_quiet:
        yield fine(_PART, f"some messages of {len(parts)} source tables lose nothing")


def _remarks(config: AppConfig, origin: Origin, part: pa.RecordBatch) -> Iterable[TableRemark]:
    sync = config.sync
    options = NO_MAPPING_OPTIONS if sync is None else sync.mapping_options
    reader = source_reader(config.source.format, config.source.format_options)
    location = config.table.path
    describe = reader.describe
    if sync is not None:
        target = decide(sync.rules, origin, {})
        if not isinstance(target, Target):
            return
        location = sync.path(target.name)
        describe = describe if sync.case_sensitive else LoweredDescription(describe)
    told = describe(part, options)
    if told is not None:
        yield from _beside_table(config, location, told)
    yield from read_alone(reader, part, options)


def _beside_table(config: AppConfig, location: str, told: SourceTable) -> Iterable[TableRemark]:
    try:
        table = open_table(location, file_io_options=config.file_system)
    except TableNotFoundError:
        if config.sync is not None:
            return remarks_of_new(told.columns)
        columns = config.table.columns
        ids = frozenset(field.field_id for field in columns)
        return remarks_of_existing(told, columns, ids, inexact=INEXACT)
    first = table.schemas.schema(min(table.schemas.ids()))
    ids = frozenset(field.field_id for field in first.fields)
    return remarks_of_existing(told, table.schema.fields, ids, inexact=INEXACT)
