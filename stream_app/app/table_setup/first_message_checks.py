"""Reports which of the first messages of each topic will fail, before the job creates a table.

`start_table_checks` calls it before it creates a table: a primary key cannot be changed later.

Only Debezium's JSON shows whether a row comes from the initial snapshot or from a change. So only
its messages reveal facts beyond a source table's schema.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa

from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.config.sync_config import SyncConfig
from stream_app.app.source.first_messages import log_notice
from stream_app.app.table_setup.database_schemas import database_table_schema, described_sources
from stream_app.app.table_setup.format_setup import format_setup
from stream_app.catalog.identifier import name_in_path
from stream_app.cdc.change_batch import TableTraits
from stream_app.cdc.column_drift import INEXACT
from stream_app.cdc.message_format import FormatSetup, Notice, SourceExtractor, SourceSurvey
from stream_app.cdc.source_tables import messages_by_origin
from stream_app.clock import Clock
from stream_app.epochs.rounds.source_table_check import SHARDS_FIX, distinct_tables, verdict_on
from stream_app.errors import UsageError
from stream_app.message_format_registry import format_named
from stream_app.model.schema.data_type import RowType
from stream_app.model.source.mapping_options import NO_MAPPING_OPTIONS, MappingOptions
from stream_app.model.source.origin import Origin
from stream_app.planning.sync.column_remarks import (
    TableRemark,
    remarks_of_existing,
    remarks_of_snapshot_columns,
)
from stream_app.planning.sync.partition_roots import (
    PUBLISH_FIX,
    TableSample,
    partition_roots,
    root_warning,
)

_LOG = logging.getLogger(__name__)
_NOTICES_MAX = 10
_READ = "r"


def check_first_messages(
    format_name: str,
    setup: FormatSetup,
    messages: Mapping[str, pa.RecordBatch],
    *,
    reads_first: bool,
) -> None:
    """Check the messages at both ends of each topic.

    Args:
        setup: the setup of the format, for the existing or future table.
        messages: the messages of each topic, by topic.
        reads_first: whether the job will certainly read these messages.

    Raises:
        UsageError: the job reads the messages, and they belong to several source tables, or one of
            them would stop the job.
    """
    survey = format_named(format_name).survey(setup, messages)
    for notice in (*_several_tables(survey, setup.traits), *survey.notices()):
        if reads_first and notice.stops_job:
            raise UsageError(notice.problem, where=notice.where, fix=notice.fix)
        log_notice(notice)


def first_remarks(
    source_extractor: SourceExtractor, messages: pa.Table, columns: RowType
) -> Sequence[TableRemark]:
    """Return remarks on the columns of one table's messages."""
    batches = messages.combine_chunks().to_batches()
    description = source_extractor.describe(batches[0], NO_MAPPING_OPTIONS) if batches else None
    if description is None:
        return []
    all_ids = frozenset(field.field_id for field in columns)
    return remarks_of_existing(description, columns, all_ids, inexact=INEXACT)


def _several_tables(survey: SourceSurvey, traits: TableTraits) -> Iterator[Notice]:
    """Yield a notice if the topics have messages of several source tables."""
    records = survey.tables()
    verdict = verdict_on({}, records)
    if not verdict.foreign_sources or traits.merges_shards:
        return
    names_by_topic: dict[str, list[str]] = defaultdict(list)
    for topic, name in records:
        names_by_topic[topic].append(name)
    tables = distinct_tables(names_by_topic)
    table_names_text = ", ".join(f"{name} (in {topic})" for name, topic in tables.items())
    yield Notice(
        problem=f"the topics have {len(tables)} tables of the source: {table_names_text}",
        where="source.topics",
        fix=SHARDS_FIX,
        stops_job=verdict.is_refused,
    )


def warn_of_first_messages(job_tables: WholeDatabase, messages: pa.Table, clock: Clock) -> None:
    """Warn of problems that will hold tables back, from a sample of each table's messages.

    Args:
        messages: a sample of messages; columns of `MESSAGE_SCHEMA`.
    """
    sync_config = job_tables.sync
    count = 0
    batches = list(messages_by_origin(job_tables.source.source_extractor.find_origins, messages))
    _warn_if_all_are_left_out(sync_config, [origin for origin, _ in batches])
    for root, leaves in partition_roots(tables_in_messages(dict(batches))).items():
        _LOG.warning("%s\n  to fix: %s", root_warning(root, leaves), PUBLISH_FIX)
    # The survey compares names as the source spells them.
    as_spelled = replace(job_tables, sync=replace(sync_config, case_sensitive=True))
    for origin, batch in batches:
        location = as_spelled.target_path(origin)
        if location is None:
            continue
        try:
            name = name_in_path(location)
            sources = described_sources(as_spelled, {origin: batch})
            schema = database_table_schema(as_spelled, name, sources, clock)
        except UsageError:
            continue  # reported when the table is created
        source_config = as_spelled.source_of(name)
        setup = format_setup(source_config, job_tables.table_config(name, schema.fields), schema)
        survey = format_named(source_config.format).survey(setup, {str(origin): batch})
        for notice in survey.notices():
            count += 1
            if count <= _NOTICES_MAX:
                _LOG.warning(
                    "%s: %s\n  where: %s\n  to fix: %s",
                    origin, notice.problem, notice.where, notice.fix,
                )  # fmt: skip
    if count > _NOTICES_MAX:
        _LOG.warning("%d more such warnings", count - _NOTICES_MAX)


def _warn_if_all_are_left_out(sync_config: SyncConfig, origins: Sequence[Origin]) -> None:
    if origins and not any(map(sync_config.rules.accepts, origins)):
        _LOG.warning(
            "the job takes no table of the source that the first messages name: %s\n"
            "  where: sync.including-tables, excluding-tables, including-dbs, excluding-dbs\n"
            "  to fix: match whole names of tables, without database and schema",
            ", ".join(map(str, origins[:_NOTICES_MAX])),
        )


def tables_in_messages(batches: Mapping[Origin, pa.RecordBatch]) -> Mapping[Origin, TableSample]:
    """Return facts that the messages of each table show; a table without rows is left out."""
    samples = {}
    for origin, batch in batches.items():
        rows = [row for row in _rows(batch) if row is not None]
        columns = frozenset[str]().union(*(row for _, row in rows))
        read_rows = frozenset(
            orjson.dumps(row, option=orjson.OPT_SORT_KEYS) for op, row in rows if op == _READ
        )
        if rows:
            is_changed = any(op != _READ for op, _ in rows)
            samples[origin] = TableSample(
                columns=columns, snapshot_rows=read_rows, is_changed=is_changed
            )
    return samples


def snapshot_only_remarks(
    source_extractor: SourceExtractor, batch: pa.RecordBatch, options: MappingOptions
) -> Iterable[TableRemark]:
    """Return remarks on columns of one table that only rows of the initial snapshot have."""
    is_read_row = [None if row is None else row[0] == _READ for row in _rows(batch)]

    def describe_rows(*, is_read: bool) -> Any:
        indices = [index for index, value in enumerate(is_read_row) if value is is_read]
        if not indices:
            return None
        return source_extractor.describe(batch.take(pa.array(indices, pa.int32())), options)

    newest_read = max((index for index, value in enumerate(is_read_row) if value), default=-1)
    if False not in is_read_row[newest_read + 1 :]:
        return []
    return remarks_of_snapshot_columns(describe_rows(is_read=True), describe_rows(is_read=False))


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, dict[str, Any]] | None]:
    """Yield the op and the row after the change for each message, or None without them."""
    for value in batch.column("value").to_pylist():
        yield None if value is None else _row(value)


def _row(value: bytes) -> tuple[str, dict[str, Any]] | None:
    try:
        document = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    if not isinstance(document, dict):
        return None
    op, after = document.get("op"), document.get("after")
    return (op, after) if isinstance(op, str) and isinstance(after, dict) else None
