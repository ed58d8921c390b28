"""A job of one table whose messages describe columns: it runs epoch by epoch, and restarts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from stream_app.app.cli.main import main
from stream_app.app.table_setup.format_pipeline import format_pipeline
from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.message_format import FormatSetup
from stream_app.cdc.pipeline import Pipeline
from stream_app.checkpoint.epoch_log import EpochLog
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile
from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.epoch_tables import StoppingTables
from stream_app.epochs.rounds.round_runner import RoundRunner
from stream_app.epochs.rounds.schema_evolution import SchemaEvolution
from stream_app.epochs.rounds.table_feed import TableFeed
from stream_app.epochs.stages.epoch_plan import EpochSettings
from stream_app.format.arrow_schema import arrow_schema
from stream_app.mergetree.compact.compact_executor import CompactExecutor
from stream_app.quarantine.quarantine_writer import QuarantineWriter
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.job.table_job import TableJob
from stream_app.table.opening import open_file_store_table
from stream_app.table.schema.alter import EvolutionRules
from tests.support.engines.begun_epoch import Ends, begin_epoch
from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.jobs.table_writer import by_content, read_rows
from tests.support.jobs.two_table_job import Reports
from tests.support.tables.small_table import CompactHere, small_table


@dataclass
class Job:
    """One table's job, which may be started again."""

    table: FileStoreTable
    rules: EvolutionRules | None = field(default_factory=EvolutionRules)
    epochs: list[list[bytes]] = field(default_factory=list)
    format_options: Mapping[str, str] = field(default_factory=dict)
    make_executor: Callable[[FileStoreTable], CompactExecutor] = CompactHere

    def started(
        self, ends_at: int | None = None, *, overlaps: bool = False
    ) -> EpochCommitter[Parts]:
        table = open_file_store_table(self.table.location, self.table.clock)
        feed = TableFeed(
            name="t",
            table_job=TableJob(table, self.make_executor),
            make_pipeline=self._pipeline_of,
            quarantine_writer=QuarantineWriter(
                JobFolder(f"{self.table.location}-bad", self.table.file_io), None
            ),
            listener=Reports(ends_at),
            evolution=None if self.rules is None else SchemaEvolution(self.rules),
        )
        tables = StoppingTables(
            [feed],
            epoch_log=EpochLog(self.checkpoint(), can_reread=True),
            state_file=JobStateFile(self.checkpoint()),
            now_ms=table.clock.now_ms,
        )
        runner = EpochHere(overlaps=overlaps)
        return EpochCommitter(
            RoundRunner(
                tables=tables,
                settings=EpochSettings(task_count=2),
                epoch_runner=runner,
                clock=table.clock,
            )
        )

    def checkpoint(self) -> JobFolder:
        return JobFolder(f"{self.table.location}-checkpoint", self.table.file_io)

    def _pipeline_of(self, table: FileStoreTable) -> Pipeline:
        schema = table.schema
        return format_pipeline(
            "debezium-json",
            FormatSetup(
                columns=schema.fields,
                arrow_schema=arrow_schema(schema.fields),
                primary_keys=schema.primary_keys,
                options={
                    **({} if self.rules is None else {"unknown-columns": "evolve"}),
                    **self.format_options,
                },
                keeps_update_before=False,
                mapping_options=None if self.rules is None else self.rules.options,
            ),
        )

    def send(self, *values: bytes) -> int:
        self.epochs.append(list(values))
        epoch = len(self.epochs) - 1
        begin_epoch(self.checkpoint(), epoch, _ends([]), _ends(self.epochs))
        return epoch

    def parts(self, epoch: int) -> Parts:
        before = sum(map(len, self.epochs[:epoch]))
        rows = [
            {"topic": "t", "partition": 0, "offset": offset, "key": b'{"k":1}', "value": value}
            for offset, value in enumerate(self.epochs[epoch], before)
        ]
        whole = pa.RecordBatch.from_pylist(rows, MESSAGE_SCHEMA)
        return [whole.slice(0, 2), whole.slice(2)] if len(rows) > 2 else [whole]

    def run(self, committer: EpochCommitter[Parts], *values: bytes) -> None:
        self.repeat(committer, self.send(*values))

    def repeat(self, committer: EpochCommitter[Parts], epoch: int) -> None:
        try:
            committer.process_epoch(self.parts(epoch), epoch)
        except RuntimeError:
            assert committer.failure is not None
            raise committer.failure from None

    def columns(self) -> list[str]:
        schema = open_file_store_table(self.table.location).schema
        return [f"{column.name} {column.data_type}" for column in schema.fields]

    def rows(self) -> list[str]:
        return by_content(read_rows(open_file_store_table(self.table.location)))


def _ends(epochs: Sequence[Sequence[bytes]]) -> Ends:
    return {"t": {"0": sum(map(len, epochs))}}


def a_job(folder: Path, columns: str = "k INT, v STRING", **options: Any) -> Job:
    """Return a job whose table has a row."""
    rules = options.pop("rules", EvolutionRules())
    return Job(small_table(str(folder / "t"), columns, ("k",), bucket=1, **options).table, rules)


def alter(job: Job, *words: str) -> None:
    """Run `stream-app alter` on the job's table."""
    assert main(["alter", job.table.location, *words]) == 0
