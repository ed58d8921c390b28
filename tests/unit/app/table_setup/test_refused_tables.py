"""Every verb that reports tables reports those of the source of which the job stores nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.sync_config import TableSetting
from stream_app.app.inspect.job_status import ends_of_table
from stream_app.app.table_setup.first_message_checks import warn_of_first_messages
from stream_app.app.table_setup.refused_tables import TABLES_MAX, with_newly_refused
from stream_app.clock import SystemClock
from stream_app.model.source.origin import Origin
from tests.support.databases.source_database import a_configuration, table_of
from tests.support.jobs.database_job import DatabaseJob
from tests.support.jobs.examined_job import examination_of
from tests.support.messages.database_topic import GARBAGE, creates

PARTITIONED = {"orders.partition-keys": TableSetting(("v",))}


def status(conf: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    capsys.readouterr()
    code = main(["status", "--conf", str(conf), "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return code, {row["table"]: f"{row['state']}: {row['reason']}" for row in rows}


def test_a_refused_source_table_is_shown_until_it_has_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = DatabaseJob(tmp_path, tables=PARTITIONED, options={"bucket": "2"})
    job.run(*creates("shop.orders", [1]), *creates("shop.items", [1]), GARBAGE)
    job.run(*creates("shop.odd name", [1]))
    conf = a_configuration(job)
    code, rows = status(conf, capsys)
    assert code == 1
    assert sorted(rows) == ["items", "shop.odd name", "shop.orders"]
    assert rows["shop.orders"].startswith("refused: the table orders cannot be created")
    assert rows["shop.odd name"].startswith("refused: shop.odd name would become the table")
    assert "to fix: name it by sync.table-mapping" in rows["shop.odd name"]
    assert main(["status", "--conf", str(conf), "--table", "shop.orders"]) == 1
    assert "partition keys must be part of the primary key" in capsys.readouterr().out

    observations = examination_of(job.config, SystemClock()).observations()
    texts = [observation.text for observation in observations if observation.subject == "table"]
    assert [text.partition(" is stored")[0] for text in texts if "nothing of" in text] == [
        "nothing of shop.odd name",
        "nothing of shop.orders",
    ]

    job.start(tables={})  # fixed
    job.run(*creates("shop.orders", [2]))
    assert sorted(status(conf, capsys)[1]) == ["items", "orders", "shop.odd name"]
    left_out = ["--set", "sync.excluding-tables=odd.*"]
    assert main(["status", "--conf", str(conf), *left_out]) == 0
    assert "odd" not in capsys.readouterr().out


def test_any_number_of_names_leaves_a_bounded_file() -> None:
    names = [Origin("shop", "", f"t{number:05d}") for number in range(2 * TABLES_MAX)]
    refused_reasons = with_newly_refused({}, dict.fromkeys(names, "why"), ())
    assert len(refused_reasons) == TABLES_MAX
    assert with_newly_refused(refused_reasons, {}, set(names[1:])) == {names[0]: "why"}


@pytest.mark.parametrize(
    ("name", "topics"),
    [("a", ["t1"]), ("new", ["t3"]), ("both", ["t1", "t2"])],
)
def test_the_lag_of_a_table_is_of_its_own_topics(name: str, topics: list[str]) -> None:
    ends = {"t1": {"0": 5}, "t2": {"0": 7}, "t3": {"0": 9}}
    met = {"a": ["t1"], "both": ["t1", "t2"]}
    assert sorted(ends_of_table(ends, met, name)) == topics
    assert ends_of_table({"t1": {"0": 5}}, met, "new") == {"t1": {"0": 5}}, "a topic may be shared"


def test_a_job_that_takes_none_of_the_tables_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = DatabaseJob(tmp_path, including_tables="public\\.orders")
    messages = table_of([*creates("shop.orders", [1]), *creates("shop.items", [1])])
    warn_of_first_messages(job.database, messages, job.clock)
    assert "the job takes no table of the source that the first messages name" in caplog.text
    caplog.clear()
    job.start(including_tables="orders")
    warn_of_first_messages(job.database, messages, job.clock)
    assert caplog.text == ""
