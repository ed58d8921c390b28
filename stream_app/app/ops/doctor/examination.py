"""Examines everything that a job's configuration names, without a JVM and without reading rows.

It creates small files in the folders of the warehouse and the checkpoint, and deletes them again.
It does not create missing tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stream_app.app.config.job_tables.single_table import SingleTable
from stream_app.app.config.job_tables.whole_database import WholeDatabase
from stream_app.app.inspect.job_status import JobStatus
from stream_app.app.opening.job_catalog import job_catalog, open_job_table
from stream_app.app.opening.job_folder_access import open_checkpoint, probe_local
from stream_app.app.ops.doctor import machine
from stream_app.app.ops.doctor.broker_examination import BrokerExamination
from stream_app.app.ops.doctor.observation import (
    Observation,
    clock_observations,
    good_observation,
    guarded_observations,
    problem_observation,
    warning_observation,
)
from stream_app.app.ops.doctor.table_examination import (
    column_observations,
    database_observations,
    held_table_warnings,
    iceberg_reader_lag,
    latest_snapshot_problems,
    refused_sources_warnings,
)
from stream_app.app.source.topic_checks import RECREATED_FIX, recreated_topics
from stream_app.app.table_setup.single_table_setup import changes_that_fail, configured_schema
from stream_app.app.text.listing import count_text
from stream_app.catalog.catalog_options import names_folder
from stream_app.checkpoint.checkpoint_owner import DATABASE, check_owner
from stream_app.checkpoint.damaged_checkpoint import empty_files
from stream_app.checkpoint.epoch_log import LOST_FIX
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import state_or_empty
from stream_app.clock import Clock
from stream_app.errors import CheckpointError, TableNotFoundError
from stream_app.fileio.store_probes import store_now_ms
from stream_app.fileio.store_registry import can_open, file_io_of, is_local
from stream_app.kafka.offset_ranges import lost_ranges
from stream_app.model.options.core_options import CoreOptions
from stream_app.model.options.write_options import WRITE_BUFFER_SIZE
from stream_app.model.schema.table_schema import TableSchema
from stream_app.table.opening import check_fits, require_alterable, with_configuration

_START = "start the job, and read its log"


@dataclass(slots=True)
class Examination:
    """The examination of one job.

    Attributes:
        quarantine: the folder of the job's bad records, or None without one.
        spark_settings: settings of Spark.
        broker_timeout_s: the timeout of connecting to the broker, and of each request.
    """

    job_tables: SingleTable | WholeDatabase
    quarantine: str | None
    spark_settings: Mapping[str, str]
    clock: Clock
    broker_timeout_s: float = 10.0
    _broker: BrokerExamination = field(init=False)

    def __post_init__(self) -> None:
        self._broker = BrokerExamination(self.job_tables.source, self.clock, self.broker_timeout_s)

    def observations(self) -> Iterator[Observation]:
        """Yield observations of all subjects. An error about one does not stop the others."""
        for subject, check in self._checks():
            yield from guarded_observations(subject, check)

    def _checks(self) -> Iterator[tuple[str, Callable[[], Iterator[Observation]]]]:
        """Yield each subject with its check, which runs before the next subject is yielded."""
        yield "java", machine.java_observations
        yield "python", machine.package_observations
        job_tables, section = self.job_tables, self.job_tables.section
        has_folder = names_folder(job_tables.catalog)
        cores = os.cpu_count() or 1
        buffer_size = CoreOptions(section.options)[WRITE_BUFFER_SIZE]
        memory = machine.machine_memory()
        yield (
            "memory",
            partial(machine.memory_observations, self.spark_settings, memory, buffer_size, cores),
        )
        if has_folder:
            yield "disk", partial(machine.disk_observations, section.warehouse)
        yield "broker", self._broker.observations
        yield "columns", partial(column_observations, job_tables, self._broker.topics)
        if has_folder:
            yield "warehouse", partial(self._store_observations, "warehouse", section.warehouse)
        if job_tables.catalog:
            yield "catalog", self._catalog
        yield "checkpoint", self._checkpoint
        if self.quarantine is not None:
            yield "quarantine", partial(self._quarantine, self.quarantine)
        match job_tables:
            case SingleTable():
                yield "table", partial(self._table, job_tables)
            case WholeDatabase():
                yield "table", partial(self._tables_of, job_tables)

    def _quarantine(self, location: str) -> Iterator[Observation]:
        if can_open(location):
            yield from self._store_observations("quarantine", location)
        else:
            yield _spark_only_warning("quarantine", location)

    def _store_observations(self, subject: str, location: str) -> Iterator[Observation]:
        """Yield observations of the store's rights, atomic creation and clock."""
        folder, file_io = file_io_of(location, self.job_tables.file_system)
        existing_folder = folder
        if is_local(location):
            file_io, existing_folder = probe_local(location)
        else:
            file_io.check_atomic_create(folder)
        yield good_observation(
            subject, f"{folder} can be written, and of two writers of a file one wins"
        )
        store_time_ms = store_now_ms(file_io, existing_folder)
        yield from clock_observations(subject, "the store", store_time_ms, self.clock)

    def _catalog(self) -> Iterator[Observation]:
        job_tables = self.job_tables
        catalog, database = job_catalog(job_tables), job_tables.section.database
        names = catalog.list_tables(database)
        yield good_observation(
            "catalog", f"{catalog.label} answers: {count_text(len(names), 'table')} in {database}"
        )

    def _checkpoint(self) -> Iterator[Observation]:
        """Yield whether the checkpoint is writable, undamaged, and of this job and its topics."""
        location = self.job_tables.checkpoint
        if not can_open(location):
            yield _spark_only_warning("checkpoint", location)
            return
        folder = open_checkpoint(self.job_tables, fix=_START)
        yield from self._store_observations("checkpoint", location)
        if is_local(location) and (empty_names := empty_files(Path(folder.location))):
            text = f"the checkpoint has empty files, as after a power cut: {', '.join(empty_names)}"
            yield problem_observation("checkpoint", text, LOST_FIX)
            return
        state = state_or_empty(folder)
        check_owner(
            folder, state, *_checkpoint_owner(self.job_tables), str(self.job_tables.share or "")
        )
        if not state.location:
            yield good_observation("checkpoint", "new: the job begins at source.starting-offsets")
        elif recreated_names := recreated_topics(state.topic_ids, self._broker.topics):
            names_text = ", ".join(sorted(recreated_names))
            text = f"the topic {names_text} was recreated since the job has begun"
            yield problem_observation("checkpoint", text, RECREATED_FIX)
        else:
            yield from self._lost_offsets(folder)

    def _lost_offsets(self, checkpoint: JobFolder) -> Iterator[Observation]:
        """Yield whether the topics still have the messages that the job reads next."""
        try:
            offsets_by_table = (
                self._status(checkpoint).offsets_by_table() if self._broker.starts else {}
            )
        except CheckpointError as error:
            yield problem_observation(
                "checkpoint", f"its offsets cannot be read: {error.problem}", error.fix
            )
            return
        except (ValueError, KeyError) as error:  # `EpochLog.query_id` parses Spark's metadata
            yield problem_observation(
                "checkpoint", f"its metadata cannot be read: {error!r}", LOST_FIX
            )
            return
        lost_texts = {
            str(lost_range)
            for reached_offsets in offsets_by_table.values()
            for lost_range in lost_ranges(reached_offsets, self._broker.starts)
        }
        if not lost_texts:
            text = "belongs to this job, which continues where it was"
            yield good_observation("checkpoint", text)
            return
        text = f"records that the job has not read are gone: {'; '.join(sorted(lost_texts))}"
        if self.job_tables.source.fail_on_data_loss:
            yield problem_observation(
                "checkpoint",
                text,
                "fill the table again, with a new checkpoint, from a topic that has everything; or "
                "set source.fail-on-data-loss = false to continue with the rest. Raise the topic's "
                "retention",
            )
        else:
            yield warning_observation(
                "checkpoint", f"{text}, and the job skips them", "raise the retention"
            )

    def _status(self, checkpoint: JobFolder) -> JobStatus:
        now_ms = self.clock.now_ms()
        return JobStatus(
            job_tables=self.job_tables, checkpoint=checkpoint, ends=None, now_ms=now_ms
        )

    def _tables_of(self, job_tables: WholeDatabase) -> Iterator[Observation]:
        if can_open(job_tables.checkpoint):
            checkpoint = open_checkpoint(job_tables, fix=_START)
            status = self._status(checkpoint)
            yield from held_table_warnings(checkpoint)
            yield from refused_sources_warnings(status.refused_reasons())
            yield from database_observations(job_tables, status.paths())

    def _table(self, job_tables: SingleTable) -> Iterator[Observation]:
        """Yield whether the table of a job of one table fits its configuration."""
        schema = configured_schema(job_tables.table, self.clock)
        try:
            table = open_job_table(job_tables, job_tables.location)
        except TableNotFoundError:
            yield good_observation("table", f"{job_tables.location} will be created")
            yield from self._merging(schema)
            return
        require_alterable(table)
        check_fits(table, schema)
        table = with_configuration(table, job_tables.table.options)
        yield from self._merging(table.schema)
        latest_snapshot = table.snapshots.latest()
        snapshot_text = (
            "no snapshot yet"
            if latest_snapshot is None
            else f"snapshot {latest_snapshot.snapshot_id}"
        )
        yield good_observation("table", f"{table.location} fits the configuration: {snapshot_text}")
        yield from latest_snapshot_problems(table)
        yield from iceberg_reader_lag(table)

    def _merging(self, schema: TableSchema) -> Iterator[Observation]:
        for change in changes_that_fail(self.job_tables.source.format, schema):
            yield warning_observation("table", change.problem, change.fix)


def _checkpoint_owner(job_tables: SingleTable | WholeDatabase) -> tuple[str, str]:
    """Return the location and the identity to which the job's checkpoint must belong."""
    match job_tables:
        case WholeDatabase():
            return job_tables.location, DATABASE
        case SingleTable():
            try:
                table = open_job_table(job_tables, job_tables.location)
            except TableNotFoundError:  # a checkpoint with a table's identity refuses a new table
                return file_io_of(job_tables.location)[0], ""
            return table.version_root, table.identity()


def _spark_only_warning(subject: str, location: str) -> Observation:
    """Return the warning that the doctor cannot check a folder that only Spark can access."""
    text = f"only Spark reaches {location}, and the doctor starts none"
    return warning_observation(subject, text, _START)
