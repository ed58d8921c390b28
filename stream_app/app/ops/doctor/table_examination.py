"""Checks whether a job's tables can be opened and written, and whether source columns lose values.

It reads a few messages from both ends of each topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from stream_app.app.config.job_tables.job_tables import JobTables
from stream_app.app.opening.job_catalog import open_job_table
from stream_app.app.ops.doctor.observation import (
    Observation,
    good_observation,
    guarded_observations,
    problem_observation,
    warning_observation,
)
from stream_app.app.source.broker_connection import TopicInfo
from stream_app.app.source.first_messages import in_one_table, sample_messages
from stream_app.app.table_setup.first_message_checks import (
    snapshot_only_remarks,
    tables_in_messages,
)
from stream_app.cdc.column_drift import INEXACT
from stream_app.cdc.lower_case_names import Describe, LowerCaseDescriber
from stream_app.cdc.source_tables import messages_by_origin
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.errors import StreamAppError, TableNotFoundError
from stream_app.model.source.origin import Origin
from stream_app.model.source.source_table import SourceTable
from stream_app.planning.sync.column_remarks import TableRemark, remarks_of_existing, remarks_of_new
from stream_app.planning.sync.partition_roots import PUBLISH_FIX, partition_roots, root_warning
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.iceberg.reader_lag import LAG_FIX, reader_lag
from stream_app.table.opening import require_writable
from stream_app.table.versions.file_presence import FilePresence
from stream_app.table.versions.file_store_scan import FileStoreScan

_COLUMNS_PART = "columns"


def latest_snapshot_problems(table: FileStoreTable) -> Iterator[Observation]:
    """Yield problems with the files of the latest snapshot, from manifests and folder listings.

    Raises:
        CorruptFileError: a snapshot or a manifest cannot be read.
    """
    latest_snapshot = table.snapshots.latest()
    if latest_snapshot is None:
        return
    presence = FilePresence(table)
    findings = [
        finding
        for entry in FileStoreScan(table).iterate_live(latest_snapshot)
        for finding in presence.findings(
            table.bucket_files(entry.partition, entry.bucket).path(entry.file),
            entry.file.file_size,
        )
    ]
    if findings:
        first_finding = findings[0]
        more_text = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        yield problem_observation(
            "table",
            f"{first_finding.problem}{more_text} ({first_finding.where}), which snapshot "
            f"{latest_snapshot.snapshot_id} needs",
            f"{first_finding.fix}; stream-app check {table.location} lists all",
        )


def iceberg_reader_lag(table: FileStoreTable, name: str = "") -> Iterator[Observation]:
    """Yield how far Iceberg's readers are behind, according to the catalog in the table's options.

    An error becomes a warning, because the job runs all the same, and publishes later.
    """
    prefix = f"{name}: " if name else ""
    try:
        lag = reader_lag(table)
    except StreamAppError as error:
        where = f" ({error.where})" if error.where else ""
        yield warning_observation("iceberg", f"{prefix}{error.problem}{where}", error.fix)
        return
    if lag is not None and lag.is_behind:
        yield warning_observation("iceberg", f"{prefix}{lag.text}", LAG_FIX)
    elif lag is not None:
        yield good_observation("iceberg", f"{prefix}{lag.text}")


def database_observations(job_tables: JobTables, paths: Mapping[str, str]) -> Iterator[Observation]:
    """Yield observations of each table that a job of a whole database has written.

    Args:
        paths: name → folder of each table.
    """
    problem_count = 0
    for path in paths.values():

        def observations(path: str = path) -> Iterator[Observation]:
            try:
                table = open_job_table(job_tables, path)
            except TableNotFoundError:  # a new table is created with its first rows
                return
            require_writable(table)
            yield from latest_snapshot_problems(table)
            yield from iceberg_reader_lag(table, table.name)

        for observation in guarded_observations("table", observations):
            problem_count += observation.subject == "table"
            yield observation
    if not problem_count:
        verdict = (
            "tables are made from the messages" if not paths else f"all {len(paths)} are sound"
        )
        yield good_observation("table", verdict)


def refused_sources_warnings(reasons: Mapping[Origin, str]) -> Iterator[Observation]:
    """Yield a warning for each source table that the job does not store."""
    for origin, reason in reasons.items():
        fix = "remove this cause, and replay its records (stream-app quarantine replay)"
        yield warning_observation("table", f"nothing of {origin} is stored: {reason}", fix)


def held_table_warnings(checkpoint: JobFolder) -> Iterator[Observation]:
    """Yield a warning for each table that an error holds back."""
    state = state_or_empty(checkpoint)
    for name, held_table in sorted(state.held_tables.items()):
        if held_table.has_failed:
            [reason, *_] = held_table.reason.splitlines() or [""]
            fix = f"see the error by stream-app status --table {name}; retry by stream-app resume"
            yield warning_observation("table", f"{name} is held back: {reason}", fix)


def column_observations(
    job_tables: JobTables, topics: Mapping[str, TopicInfo]
) -> Iterator[Observation]:
    """Yield warnings about the columns of each table's messages; none without known topics."""
    if not topics:
        return
    messages = in_one_table(sample_messages(job_tables.source, topics))
    source_extractor = job_tables.source.source_extractor
    messages_of = dict(messages_by_origin(source_extractor.find_origins, messages))
    is_quiet = True
    for origin, messages_of_origin in messages_of.items():
        for remark in _remarks(job_tables, origin, messages_of_origin):
            is_quiet = False
            fix = remark.remedy(job_tables.full_key)
            yield warning_observation(_COLUMNS_PART, f"{origin}: {remark.text()}", fix)
    for root, leaves in partition_roots(tables_in_messages(messages_of)).items():
        is_quiet = False
        yield warning_observation(_COLUMNS_PART, root_warning(root, leaves), PUBLISH_FIX)
    if messages_of and is_quiet:
        yield good_observation(
            _COLUMNS_PART, f"some messages of {len(messages_of)} source tables lose nothing"
        )


def _remarks(
    job_tables: JobTables, origin: Origin, messages: pa.RecordBatch
) -> Iterable[TableRemark]:
    location, options = job_tables.target_path(origin), job_tables.mapping_options
    source_extractor = job_tables.source.source_extractor
    if location is None:
        return
    describe: Describe = source_extractor.describe
    if job_tables.lowers_names:
        describe = LowerCaseDescriber(describe)
    description = describe(messages, options)
    if description is not None:
        yield from _remarks_beside_table(job_tables, location, description)
    yield from snapshot_only_remarks(source_extractor, messages, options)


def _remarks_beside_table(
    job_tables: JobTables, location: str, description: SourceTable
) -> Iterable[TableRemark]:
    try:
        table = open_job_table(job_tables, location)
    except TableNotFoundError:
        columns = job_tables.declared_columns
        if columns is None:
            return remarks_of_new(description.columns)
        first_ids = frozenset(field.field_id for field in columns)
        return remarks_of_existing(description, columns, first_ids, inexact=INEXACT)
    first_schema = table.schemas.schema(min(table.schemas.ids()))
    first_ids = frozenset(field.field_id for field in first_schema.fields)
    return remarks_of_existing(description, table.schema.fields, first_ids, inexact=INEXACT)
