"""A replay stores the quarantined records of a database's job in order, each in its table, once."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.sync_config import TableSetting
from stream_app.checkpoint.held_tables import resume
from tests.support.databases.database_replay import replay
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.ingest_process import write_conf
from tests.support.messages.database_topic import GARBAGE, Message, a_row, change, creates

BAD_KEY = {"orders.primary-keys": TableSetting(("nothing",))}


def bad(origin: str, key: int) -> Message:
    """A new row whose number is none."""
    return change(origin, {**a_row(key), "n": "none"})


def fix_record(job: DatabaseJob, index: int) -> None:
    """The quarantine's copy of a message of the table `items` is right now, as after an option."""
    for file in Path(f"{job.config.stream.quarantine}/items").glob("epoch-*.jsonl"):
        file.write_text(file.read_text().replace('\\"n\\":\\"none\\"', '\\"n\\":1'))
    key, value = job.sent[index]
    assert value is not None
    job.sent[index] = key, value.replace(b'"n":"none"', b'"n":1')


def test_records_of_tables_that_could_not_be_made_go_to_each(tmp_path: Path) -> None:
    tables = {**BAD_KEY, "items.primary-keys": TableSetting(("nothing",))}
    job = DatabaseJob(tmp_path, tables=tables)
    job.run(
        *creates("shop.orders", [1, 2, 3]), *creates("shop.others", [1]), GARBAGE,
        *creates("shop.items", [1, 2]),
    )  # fmt: skip
    assert (job.rows("others"), len(job.quarantine())) == ({1: "new 1"}, 6)
    assert replay(job) == {}, "their tables are not there yet"
    job.start(tables={})
    job.run(
        change("shop.orders", a_row(2, "newer"), a_row(2)),
        change("shop.items", a_row(1), op="d"),
        change("shop.orders", a_row(9)),
    )
    assert job.rows("orders") == {2: "newer 2", 9: "new 9"}
    outcome = replay(job)
    assert outcome == {
        "items": {"replayed": [6], "overtaken": [5]},
        "orders": {"replayed": [0, 2], "overtaken": [1]},
    }
    assert job.rows("orders") == {1: "new 1", 2: "newer 2", 3: "new 3", 9: "new 9"}
    assert job.rows("items") == {2: "new 2"}
    assert replay(job) == {"items": {}, "orders": {}}, "once"
    job.run(*creates("shop.orders", [10]))
    assert job.rows("orders")[10] == "new 10"
    assert job.rows("others") == {1: "new 1"}


def test_records_of_one_table(tmp_path: Path) -> None:
    """Messages of other tables between them, even unreadable ones, tell nothing of its rows."""
    job = DatabaseJob(tmp_path)
    job.run(*creates("shop.items", [1]), *creates("shop.orders", [1]))
    job.run(bad("shop.items", 2), bad("shop.orders", 2), GARBAGE, bad("shop.items", 3))
    job.run(change("shop.items", a_row(3, "newer")), *creates("shop.orders", [5]))
    assert job.rows("items") == {1: "new 1", 3: "newer 3"}
    assert replay(job, "items") == {"items": {"bad": [2, 5]}}
    fix_record(job, 2)
    fix_record(job, 5)
    assert replay(job, "items") == {"items": {"replayed": [2], "overtaken": [5]}}
    assert replay(job, "items") == {"items": {}}
    assert job.rows("items") == {1: "new 1", 2: "new 2", 3: "newer 3"}
    assert len(job.quarantine("orders")) == 1


def test_a_record_behind_the_job_is_the_jobs(tmp_path: Path) -> None:
    """The epoch that set it aside is not finished: the next start brings it again."""
    job = DatabaseJob(tmp_path, tables=BAD_KEY)
    job.run(*creates("shop.orders", [1]))
    state = Path(job.config.stream.checkpoint) / "job_state.json"
    document = json.loads(state.read_text())
    state.write_text(json.dumps({**document, "epoch": -1}))
    job.start(tables={})
    job.tables.create(pa.Table.from_batches([job.messages(0, 1)]))
    assert replay(job) == {"orders": {"early": [0]}}


def test_a_table_that_is_held_replays_what_it_has_passed(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path, options={"bucket": "1"})
    job.run(bad("shop.items", 1), *creates("shop.items", [2]))
    bucket = tmp_path / "warehouse/ods.db/items/bucket-0"
    moved_bucket = bucket.rename(tmp_path / "kept")
    bucket.write_text("in the way")
    job.run(bad("shop.items", 3), *creates("shop.items", [4]))
    assert list(job.held()) == ["items"]
    bucket.unlink()
    moved_bucket.rename(bucket)
    fix_record(job, 0)
    assert replay(job, "items") == {"items": {"replayed": [0]}}
    resume(job.checkpoint, "items", job.clock.now_ms() + 1)
    job.wait()
    assert not job.held()
    assert job.rows("items") == {1: "new 1", 2: "new 2", 4: "new 4"}


@pytest.mark.parametrize("keeps_shards", [False, True])
def test_shards_go_where_the_job_brings_them(tmp_path: Path, keeps_shards: bool) -> None:
    tables = {"orders.primary-keys": TableSetting(("nothing",)),
              "us_orders.primary-keys": TableSetting(("nothing",)),
              "eu_orders.primary-keys": TableSetting(("nothing",))}  # fmt: skip
    job = DatabaseJob(tmp_path, tables=tables, merge_shards=not keeps_shards)
    job.run(*creates("us.orders", [1]), *creates("eu.orders", [2]))
    job.start(tables={})
    job.run(*creates("us.orders", [3]), *creates("eu.orders", [4]))
    replay(job)
    if keeps_shards:
        assert job.rows("us_orders") == {1: "new 1", 3: "new 3"}
        assert job.rows("eu_orders") == {2: "new 2", 4: "new 4"}
    else:
        assert job.rows("orders") == {key: f"new {key}" for key in (1, 2, 3, 4)}


def test_the_command_names_the_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = DatabaseJob(tmp_path, tables=BAD_KEY)
    job.run(*creates("shop.items", [1]), *creates("shop.orders", [1]))
    job.start(tables={})
    job.tables.create(pa.Table.from_batches([job.messages(1, 2)]))
    conf = write_conf(
        tmp_path / "job.toml",
        source={"bootstrap-servers": "127.0.0.1:1", "topics": ["all"]},
        sync={"warehouse": job.sync.warehouse, "database": "ods"},
        stream={"checkpoint": job.config.stream.checkpoint,
                "quarantine": str(job.config.stream.quarantine)},
    )  # fmt: skip

    def offsets_by_fate(*words: str) -> list[str]:
        assert main(["quarantine", words[0], "--conf", str(conf), *words[1:]]) == 0
        return capsys.readouterr().out.splitlines()

    # No message is behind the record, so no broker is asked.
    assert offsets_by_fate("replay", "--all", "--dry-run") == [
        "orders:", "would replay 1 record: 1 changes", "dry run: nothing was changed"
    ]  # fmt: skip
    assert offsets_by_fate("replay", "--all") == [
        "orders:",
        "replayed 1 record: 1 changes in snapshot 1",
    ]
    assert offsets_by_fate("replay", "--all") == ["orders:", "nothing to do"]
    assert offsets_by_fate("list") == [f"no record waits in {job.config.stream.quarantine}"]
    assert offsets_by_fate("replay", "--table", "items", "--all") == ["nothing to do"]
    assert main(["quarantine", "list", "--conf", str(conf), "--table", "item"]) == 2
    assert "did you mean items? name one of items, orders" in capsys.readouterr().err
