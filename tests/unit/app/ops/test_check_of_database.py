"""`check --conf` reports the tables of a database's job that it cannot open, and checks others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stream_app.app.cli.main import main
from stream_app.app.config.app_config import load_config
from stream_app.app.opening.job_catalog import open_job_table
from stream_app.app.ops.source_comparison.database_side import SummedDatabase
from stream_app.app.ops.source_comparison.source_table_finder import SourceTableFinder
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobState, JobStateFile
from stream_app.errors import FAILED, NOT_COMPARED, UnsupportedTableError
from stream_app.fileio.store_registry import file_io_of
from stream_app.model.source.origin import Origin
from stream_app.network.jdbc import parse_jdbc_url
from tests.support.tables.small_table import small_table

CONFIGURATION = """
[source]
bootstrap-servers = "127.0.0.1:1"
topics = ["t"]
[sync]
warehouse = "{folder}/w"
database = "d"
[stream]
checkpoint = "{folder}/checkpoint"
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A job of two tables that no job has written yet."""
    (tmp_path / "job.toml").write_text(CONFIGURATION.format(folder=tmp_path))
    checkpoint = JobStateFile(JobFolder(*file_io_of(str(tmp_path / "checkpoint"), {})))
    checkpoint.update(JobState(targets={Origin("s", "", name): name for name in "ab"}))
    for name in "ab":
        small_table(tmp_path / f"w/d.db/{name}", "k INT", ("k",)).commit(("+I", {"k": 1}))
    return tmp_path / "job.toml"


def run_check(conf: Path) -> int:
    return main(["check", "--conf", str(conf), "--format", "jsonl"])


def test_a_table_that_is_gone_is_not_compared(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(conf.parent / "w/d.db/a")
    assert run_check(conf) == NOT_COMPARED
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["not-compared", "not-compared"]


def test_a_damaged_schema_is_more_than_not_compared(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (conf.parent / "w/d.db/a/schema/schema-0").write_text("{")
    assert run_check(conf) == FAILED
    [damaged_finding, sound_finding] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (damaged_finding["kind"], damaged_finding["where"]) == ("schema", "schema/schema-0")
    assert sound_finding["kind"] == "not-compared"


def test_a_damaged_latest_snapshot_of_a_table_with_dynamic_buckets_stops_no_other(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = conf.parent / "w/d.db/a"
    shutil.rmtree(folder)
    small_table(folder, "k INT", ("k",), bucket=-1).commit(("+I", {"k": 1}))
    (folder / "snapshot/snapshot-1").write_text("{")
    assert run_check(conf) == FAILED
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ("snapshots", "snapshot/snapshot-1") in [
        (finding["kind"], finding["where"]) for finding in findings
    ]
    assert findings[-1]["where"].endswith("w/d.db/b")


@pytest.mark.parametrize(
    ("origins", "relation", "why"),
    [
        ([("", "a"), ("eu", "a")], None, "has rows of several clusters: shop.o.t, eu/shop.o.t"),
        ([("", "a"), ("eu", "a")], "o.t", "has rows of several clusters"),
        ([("", "b"), ("eu", "a")], None, "other clusters have a table of this name too: shop.o.t"),
        ([("", "b"), ("eu", "a")], "o.t", ""),
        ([("eu", "a")], None, ""),
    ],
)
def test_a_database_is_not_taken_for_that_of_another_cluster(
    conf: Path, origins: list[tuple[str, str]], relation: str | None, why: str
) -> None:
    url = parse_jdbc_url("jdbc:postgresql://127.0.0.1/shop", "--source")
    finder = SourceTableFinder(
        job_tables=load_config(conf, [], {}).job_tables,
        state=JobState(
            targets={Origin("shop", "o", "t", cluster): name for cluster, name in origins}
        ),
        database=SummedDatabase(url=url, connection=None),
    )
    table = open_job_table(finder.job_tables, finder.job_tables.path("a"))
    if why:
        with pytest.raises(UnsupportedTableError, match=why):
            finder.source_of(table, relation)
    else:
        source = finder.source_of(table, relation)
        assert source is not None
        assert source.relations == ["o.t"]
