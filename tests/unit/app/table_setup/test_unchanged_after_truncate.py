"""A value that an update leaves out is not taken from a row that a TRUNCATE has deleted."""

from __future__ import annotations

from pathlib import Path

from stream_app.app.config.sync_config import TableSetting
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import Message, change, creates

EMPTIED: Message = (
    None,
    b'{"before":null,"after":null,"op":"t","source":{"db":"shop","table":"orders"}}',
)


def unchanged_update(key: int) -> Message:
    """PostgreSQL's update: without a before-image, and without the large value."""
    return change("shop.orders", {"id": key, "v": "__debezium_unavailable_value", "n": 7}, op="u")


def test_a_row_from_before_a_truncate_of_the_same_epoch_is_not_an_older_row(
    tmp_path: Path,
) -> None:
    job = DatabaseJob(tmp_path, restores=True, tables={"orders.truncate": TableSetting("apply")})
    job.run(*creates("shop.orders", [1, 2]))
    job.run(
        EMPTIED, unchanged_update(1), *creates("shop.orders", [2], "again"), unchanged_update(2)
    )
    assert job.rows("orders") == {2: "again 2"}
    [reason] = job.quarantine("orders")
    assert "its row is not in the table" in reason
    job.run(unchanged_update(2), unchanged_update(1))
    assert job.rows("orders") == {2: "again 2"}
    assert len(job.quarantine("orders")) == 2
