"""A job's warnings persist: `status`, `check` and the web page repeat them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.ops.recorded_tables import warnings_of
from stream_app.errors import UsageError
from tests.support.databases.source_database import a_configuration
from tests.support.jobs.database_job import DatabaseJob
from tests.support.messages.database_topic import change, creates, with_time_of_day
from tests.support.pages.job_page import page_of

COLUMN = "column n is BIGINT, microseconds since midnight, because Paimon's TIME keeps milliseconds"
REMEDY = "nothing is lost; sync.inexact = 'string' or 'truncate' gives new tables a text"


def test_each_names_table_column_and_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = DatabaseJob(tmp_path, max_tables=1)
    job.run(with_time_of_day("shop.orders", 1))
    job.start()
    job.run(with_time_of_day("shop.orders", 2), *creates("shop.items", [1]))
    job.state.update(replace(job.state.state, decoder="arrays (the package numba is missing)"))
    conf = a_configuration(job)

    assert main(["status", "--conf", str(conf)]) == 1, "shop.items is refused"
    text, remarks = capsys.readouterr()
    assert "messages are decoded by arrays (the package numba is missing)\n" in remarks
    assert f"warning: the table ods.orders: {COLUMN}" in text
    assert f"\n  to fix: {REMEDY}" in text
    assert "messages of shop.items and of all further source tables go to quarantine" in text
    assert "\n  to fix: raise it, or leave tables out by sync.excluding-tables" in text

    main(["status", "--conf", str(conf), "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["table"] for line in lines if "warning" in line] == ["ods.orders", ""]

    with page_of(job) as page:
        words = page.words("/")
    assert f"the table ods.orders: {COLUMN}" in words
    assert f"to fix: {REMEDY}" in words
    assert [warning.table for warning in warnings_of(job.database)] == ["ods.orders", ""]


def test_a_column_that_comes_later_is_warned_of_too(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(change("shop.orders", {"id": 1, "v": "a"}))
    assert warnings_of(job.database) == ()
    job.run(with_time_of_day("shop.orders", 2))
    [warning] = warnings_of(job.database)
    assert (warning.table, warning.is_lasting) == ("ods.orders", True)
    assert warning.problem.startswith(COLUMN)


def test_a_table_that_is_made_anew_has_its_own(tmp_path: Path) -> None:
    job = DatabaseJob(tmp_path)
    job.run(with_time_of_day("shop.orders", 1))
    Path(job.sync.path("orders")).rename(tmp_path / "gone")
    job.start()
    job.run(*creates("shop.orders", [2]))
    assert warnings_of(job.database) == ()


def test_a_wrong_option_of_the_store_raises_and_a_store_of_spark_alone_has_none(
    tmp_path: Path,
) -> None:
    """A typo in an option must not look like a job without warnings."""
    database = DatabaseJob(tmp_path).database
    assert warnings_of(replace(database, checkpoint="gs://bucket/checkpoint")) == ()
    wrong = replace(
        database, checkpoint="s3://bucket/checkpoint", file_system={"s3.endpont": "http://here"}
    )
    with pytest.raises(UsageError, match=r"did you mean 's3\.endpoint'"):
        warnings_of(wrong)
