"""Topics of different source tables in one job, within an epoch and across epochs and starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.errors import SourceError
from stream_app.fileio.local_file_io import LocalFileIO
from stream_app.spark.epoch.decode_counts import DecodeCounts
from stream_app.spark.ingest.checkpoint_state import (
    open_checkpoint,
    remember_topics,
    remembered_tables,
)
from stream_app.spark.ingest.source_table_check import SourceTableCheck, distinct_tables
from stream_app.spark.job_folder import Folder
from tests.support.small_table import small_table


@pytest.fixture
def checkpoint(tmp_path: Path) -> Folder:
    small = small_table(tmp_path / "t", "id BIGINT", ("id",))
    folder = Folder(str(tmp_path / "checkpoint"), LocalFileIO())
    open_checkpoint(folder, small.table.location, small.table.identity())
    return folder


@pytest.mark.parametrize(
    ("by_topic", "tables"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"a": {"db.t"}}, ["db.t"], id="one"),
        pytest.param({"a": {"db.t"}, "b": {"db.t"}}, ["db.t"], id="one-in-two-topics"),
        pytest.param({"a": {"db.t", "db.u"}}, ["db.t", "db.u"], id="two-in-one-topic"),
        pytest.param({"a": {"db.t"}, "b": {"eb.t"}}, ["db.t", "eb.t"], id="two-databases"),
        pytest.param({"a": {""}}, ["the table of topic a"], id="not-told"),
        pytest.param(
            {"a": {""}, "b": {""}},
            ["the table of topic a", "the table of topic b"],
            id="not-told-in-two-topics",
        ),
        pytest.param({"a": {"", "db.t"}}, ["db.t"], id="flattened-and-whole"),
    ],
)
def test_distinct_tables(by_topic: dict[str, set[str]], tables: list[str]) -> None:
    assert list(distinct_tables(by_topic)) == tables


def test_one_table_goes_on_whatever_topic_it_is_in(checkpoint: Folder) -> None:
    for _ in range(2):
        check = SourceTableCheck(checkpoint)
        check.check({("a", "db.t"): (0, 5)})
        check.check({("b", "db.t"): (1, 0), ("a", ""): (0, 9)})
        check.check({})
    assert remembered_tables(checkpoint) == {"a": ["", "db.t"], "b": ["db.t"]}


def test_two_tables_in_an_epoch(checkpoint: Folder) -> None:
    with pytest.raises(SourceError) as error:
        SourceTableCheck(checkpoint).check({("a", "db.t"): (0, 5), ("b", "db.u"): (1, 7)})
    assert error.value.what == (
        "the records are of 2 tables of the source: db.t (in a), db.u (in b)"
    )
    assert "topic b, partition 1, offset 7: db.u" in error.value.where
    assert "source.merge-shards = true" in error.value.fix
    assert remembered_tables(checkpoint) == {}, "the epoch did not come about"


def test_another_table_in_a_later_epoch_of_a_later_start(checkpoint: Folder) -> None:
    SourceTableCheck(checkpoint).check({("a", "db.t"): (0, 5)})
    with pytest.raises(SourceError, match=r"db\.t .* db\.u"):
        SourceTableCheck(checkpoint).check({("a", "db.u"): (0, 6)})


def test_the_rest_of_the_checkpoint_s_state_stays(checkpoint: Folder, tmp_path: Path) -> None:
    table = small_table(tmp_path / "t2", "id BIGINT", ("id",)).table
    other = Folder(str(tmp_path / "other"), LocalFileIO())
    remember_topics(other, open_checkpoint(other, table.location, table.identity()), {"a": "id"})
    SourceTableCheck(other).check({("a", "db.t"): (0, 5)})
    state = open_checkpoint(other, table.location, table.identity())
    assert state.topic_ids == {"a": "id"}
    assert state.tables == {"a": ["db.t"]}
    # A state of an earlier version does not know of tables.
    file = Path(other.path("stream_app.json"))
    old = json.loads(file.read_text())
    del old["tables"]
    file.write_text(json.dumps(old))
    assert open_checkpoint(other, table.location, table.identity()).tables == {}


def test_counts_keep_the_first_record_of_each_table() -> None:
    one = DecodeCounts(tables={("a", "t"): (1, 5), ("a", "u"): (0, 9)})
    two = DecodeCounts(tables={("a", "t"): (0, 7)})
    assert one.plus(two).tables == {("a", "t"): (0, 7), ("a", "u"): (0, 9)}
