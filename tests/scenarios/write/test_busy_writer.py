"""Another writer commits to the table while an epoch's rows are written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines.epoch_in_caller import EpochHere, Parts
from tests.support.jobs.table_writer import CompactInCaller, TableWriter, read_rows
from tests.support.jobs.two_table_job import TwoTables
from tests.support.tables.snapshot_chain import check_chain

pytestmark = pytest.mark.usefixtures("unsynced")


@pytest.mark.parametrize("holds_tables", [False, True])
def test_a_writer_that_commits_during_each_round_does_not_keep_an_epoch_out(
    tmp_path: Path, holds_tables: bool
) -> None:
    tables = TwoTables(tmp_path)
    other_writer = TableWriter(tables.tables[0], CompactInCaller, user="other")

    class Overtaken(EpochHere):
        """Another writer commits whenever tasks have written."""

        writes = 0

        def route(self, epoch: int, messages: Parts, plan: Any) -> Any:
            routed_blocks = super().route(epoch, messages, plan)

            def write(newest: Any) -> Any:
                output = routed_blocks.write(newest)
                self.writes += 1
                other_writer.write([("+I", {"k": 3, "v": f"theirs {k}"}) for k in range(10)])
                return output

            return replace(routed_blocks, write=write)

    tables.send([{"k": 3, "v": "ours"}], [])
    runner = Overtaken()
    committer = tables.started(runner, holds_tables=holds_tables)
    committer.process_epoch(tables.messages(0).to_batches(), 0)
    committer.wait_until_committed()
    assert runner.writes == 2
    assert {row["k"]: row["v"] for row in read_rows(tables.tables[0])} == {3: "ours"}
    check_chain(tables.tables[0])
