"""Runs a first load: the first epochs read rows of a database, and later epochs read the topics.

Implements `epoch_runner.EpochRunner` in front of the topics' own runner. An epoch's number
determines what it reads, so a repeated epoch reads the same part of the database again. Its rows
may be newer, which is harmless, because the topics have each change since the load began.

The rows are not messages of a topic, so the job records neither offsets nor source tables for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession

from stream_app.cdc.pipeline import Pipeline
from stream_app.checkpoint.load_plan import LoadPlan
from stream_app.epochs.stages.epoch_plan import EpochPlan, TableMessages, TablePlan
from stream_app.epochs.stages.epoch_runner import EpochOutput, RoutedEpoch, TableOutput
from stream_app.errors import BadRecordsError
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.model.job_epoch import Offsets
from stream_app.spark.jobs.database_row_reader import DatabaseRowReader
from stream_app.spark.jobs.driver_epochs import DriverEpochRunner
from stream_app.spark.jobs.share_epochs import ShareEpochRunner
from stream_app.table.file_store_table import FileStoreTable

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RelationSplitter:
    """The splitter of a first load's rows by their relation. Implements `MessageSplitter`.

    Attributes:
        table_indices: relation → the table's index.
    """

    table_indices: dict[str, int]

    def split(self, messages: pa.RecordBatch) -> Iterator[TableMessages]:
        """See `MessageSplitter.split`."""
        yield TableMessages(self.table_indices[messages.column("topic")[0].as_py()], messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEpochRunner:
    """The runner of a first load's epochs, and then of the topics'.

    Attributes:
        topic_runner: runs the epochs that read the topics.
        make_reader: makes the reader of some tables of the source, each with the table that gets
            its rows.
        make_pipeline: makes the pipeline of the rows for a table.
    """

    topic_runner: DriverEpochRunner
    load_plan: LoadPlan
    make_reader: Callable[[Mapping[str, FileStoreTable]], DatabaseRowReader]
    make_pipeline: Callable[[FileStoreTable], Pipeline]
    overlaps: ClassVar[bool] = True

    @property
    def spark(self) -> SparkSession:
        """The session of all epochs."""
        return self.topic_runner.spark

    def route(self, epoch: int, ranges: Sequence[OffsetRange], plan: EpochPlan) -> RoutedEpoch:
        """See `EpochRunner.route`."""
        if not self.load_plan.parts_of(epoch):
            return self.topic_runner.route(epoch, ranges, plan)
        index_of_location = {
            table_plan.table.location: index for index, table_plan in plan.table_plans.items()
        }
        # Tables that already have the epoch are not in the plan.
        parts = [part for part in self.load_plan.parts_of(epoch) if part.table in index_of_location]
        table_indices = {part.relation: index_of_location[part.table] for part in parts}
        _LOG.info("%s", self.load_plan.progress(epoch))
        row_reader = self.make_reader(
            {name: plan.table_plans[index].table for name, index in table_indices.items()}
        )
        loader = ShareEpochRunner(self.spark, row_reader.read)
        epoch_plan = EpochPlan(
            table_plans=self._with_formats(plan, set(table_indices.values())),
            settings=plan.settings.with_splitter(RelationSplitter(table_indices)),
        )
        routed_epoch = loader.route(epoch, list(enumerate(parts)), epoch_plan)

        def write(write_plan: EpochPlan) -> EpochOutput:
            table_plans = self._with_formats(write_plan, write_plan.table_plans.keys())
            output = routed_epoch.write(replace(write_plan, table_plans=table_plans))
            table_outputs = {
                index: _without_topic_facts(table_output)
                for index, table_output in output.table_outputs.items()
            }
            return replace(output, table_outputs=table_outputs)

        return RoutedEpoch(routed_epoch.message_count, write, routed_epoch.table_indices)

    def messages_between(
        self, start_offsets: Offsets, end_offsets: Offsets
    ) -> Sequence[OffsetRange]:
        """See `EpochRunner.messages_between`."""
        return self.topic_runner.messages_between(start_offsets, end_offsets)

    def warm_up(self, plan: EpochPlan) -> None:
        """See `RangeEpochRunner.warm_up`."""
        self.topic_runner.warm_up(plan)

    def close(self) -> None:
        """See `DriverEpochRunner.close`."""
        self.topic_runner.close()

    def _with_formats(
        self, plan: EpochPlan, table_indices: Collection[int]
    ) -> Mapping[int, TablePlan]:
        """Return the plans of some tables, with the format of the load's rows."""
        return {
            index: replace(table_plan, pipeline=self.make_pipeline(table_plan.table), packs=[])
            for index, table_plan in plan.table_plans.items()
            if index in table_indices
        }


def _without_topic_facts(output: TableOutput) -> TableOutput:
    """Return the output without facts about topics; a row that does not fit fails the table."""
    failure = output.failure
    if output.bad_record_batches and failure is None:
        bad_records = output.bad_records()
        failure = BadRecordsError(
            f"{bad_records.num_rows} rows of the source cannot be stored exactly: "
            f"{bad_records.column('reason')[0].as_py()}",
            where=f"{bad_records.column('topic')[0].as_py()}: "
            f"{bad_records.column('value')[0].as_py()!r:.200}",
            fix="correct the rows in the source, or let Debezium's own first read bring them, "
            "without source.snapshot-from",
        )
    counts = replace(output.counts, ends={}, tables={}, record_counts={})
    return replace(output, counts=counts, failure=failure, bad_record_batches=[])
