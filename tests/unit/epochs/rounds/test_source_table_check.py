"""A job notices that its topics have several source tables, in one epoch or over many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import (
    ONLY_TABLE,
    JobState,
    JobStateFile,
    SourceTableNames,
    state_or_empty,
)
from stream_app.epochs.rounds.source_table_check import (
    SourceTableCheck,
    SourceVerdict,
    distinct_tables,
    verdict_on,
)
from stream_app.epochs.stages.decode_counts import DecodeCounts, PartitionEnd
from stream_app.errors import WrongSourceError
from stream_app.fileio.local.local_file_io import LocalFileIO


@pytest.fixture
def checkpoint(tmp_path: Path) -> JobFolder:
    return JobFolder(str(tmp_path / "checkpoint"), LocalFileIO())


def check_of(checkpoint: JobFolder) -> SourceTableCheck:
    """Return the check of a job that starts with the checkpoint."""
    return SourceTableCheck(JobStateFile(checkpoint))


def remembered_tables(checkpoint: JobFolder) -> SourceTableNames:
    return state_or_empty(checkpoint).source_tables_of()


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


def counts_of(
    records: dict[tuple[str, str], int], others: int = 0, **more_records: tuple[str, str]
) -> DecodeCounts:
    tables = {
        record: (0, offset) for offset, record in enumerate([*records, *more_records.values()])
    }
    return DecodeCounts(tables=tables, record_counts=records, other_record_count=others)


def test_one_table_goes_on_whatever_topic_it_is_in(checkpoint: JobFolder) -> None:
    for _ in range(2):
        check = check_of(checkpoint)
        source_filter = check.begin()
        assert check.admit(counts_of({("a", "db.t"): 5}), source_filter)
        assert check.admit(counts_of({("b", "db.t"): 1, ("a", ""): 9}), source_filter)
        assert check.admit(DecodeCounts(), source_filter)
    assert remembered_tables(checkpoint) == {"a": ["", "db.t"], "b": ["db.t"]}


@pytest.mark.parametrize(
    ("records", "own_name", "others"),
    [
        pytest.param({("a", "t"): 50, ("a", "u"): 1}, "t", {("a", "u")}, id="in-its-topic"),
        pytest.param({("a", "t"): 1, ("a", "u"): 50}, "u", {("a", "t")}, id="before-all-others"),
        pytest.param({("a", "t"): 9, ("b", ""): 1}, "t", {("b", "")}, id="without-a-name"),
        pytest.param({("a", ""): 2, ("a", "t"): 9}, "t", set(), id="nameless-in-its-topic"),
        pytest.param({("a", "t"): 900, ("a", "u"): 99}, "t", {("a", "u")}, id="a-tenth"),
        pytest.param({("a", "t"): 11, ("a", "u"): 10}, "t", {("a", "u")}, id="few"),
        pytest.param({}, "", set(), id="nothing"),
    ],
)
def test_a_few_records_of_another_table_are_left_out(
    records: dict[tuple[str, str], int], own_name: str, others: set[tuple[str, str]]
) -> None:
    assert verdict_on({}, records) == SourceVerdict(
        own_name=own_name, foreign_sources=frozenset(others)
    )


@pytest.mark.parametrize(
    ("remembered_names", "records", "quarantined_count", "is_refused"),
    [
        pytest.param({}, {("a", "t"): 1, ("b", "u"): 1}, 0, True, id="nobody-knows-which"),
        pytest.param({}, {("a", "t"): 20, ("b", "u"): 11}, 0, True, id="many-at-first"),
        pytest.param({"a": ["t"]}, {("a", "u"): 10}, 0, False, id="only-few-others"),
        pytest.param({"a": ["t"]}, {("a", "u"): 11}, 0, True, id="only-others"),
        pytest.param({"a": ["t"]}, {("a", "t"): 99}, 11, False, id="a-tenth-aside"),
        pytest.param({"a": ["t"]}, {("a", "t"): 90}, 11, True, id="more-aside"),
        pytest.param({"a": ["t"]}, {("a", "t"): 100, ("a", "u"): 8}, 8, True, id="together"),
    ],
)
def test_many_records_of_another_table_stop_the_job(
    remembered_names: dict[str, list[str]],
    records: dict[tuple[str, str], int],
    quarantined_count: int,
    is_refused: bool,
) -> None:
    assert verdict_on(remembered_names, records, quarantined_count).is_refused == is_refused


def test_others_are_left_out_of_the_next_plan_and_are_not_remembered(checkpoint: JobFolder) -> None:
    check = check_of(checkpoint)
    before = check.begin()
    counts = counts_of({("a", "db.t"): 50, ("a", "db.u"): 1})
    assert not check.admit(counts, before), "decode again"
    assert not check.source_filter.accepts("a", "db.u")
    assert remembered_tables(checkpoint) == {}
    again = counts_of({("a", "db.t"): 50}, others=1, other=("a", "db.u"))
    assert check.admit(again, check.source_filter)
    assert remembered_tables(checkpoint) == {"a": ["db.t"]}
    source_filter = check_of(checkpoint).begin()
    assert [source_filter.accepts("a", name) for name in ("db.t", "", "db.u", "db.v")] == [
        *(True, True, False, False)
    ]
    with pytest.raises(WrongSourceError, match=r"db\.t \(in a\), db\.u"):
        check.admit(counts, check.source_filter)  # they have come all the same


def test_a_source_that_begins_to_name_its_table_goes_on(checkpoint: JobFolder) -> None:
    check = check_of(checkpoint)
    assert check.admit(counts_of({("a", ""): 5}), check.begin())
    assert check.admit(counts_of({("a", "db.t"): 50}), check.begin())
    assert remembered_tables(checkpoint) == {"a": ["", "db.t"]}
    remembered_names = {"a": [""]}
    verdict = verdict_on(remembered_names, {("a", "db.t"): 50, ("a", "db.u"): 1, ("b", ""): 1})
    assert verdict == SourceVerdict(
        own_name="db.t", foreign_sources=frozenset({("a", "db.u"), ("b", "")})
    )


def test_a_trickle_of_others_alone_stops_the_job(checkpoint: JobFolder) -> None:
    JobStateFile(checkpoint).update(JobState(source_tables={ONLY_TABLE: {"a": ["db.t"]}}))
    check = check_of(checkpoint)

    def epoch(number: int, own_records: int, others: int) -> None:
        counts = counts_of(
            {("a", "db.t"): own_records} if own_records else {}, others, new=("a", "db.new")
        )
        counts = replace(counts, ends={("a", 0): PartitionEnd(number, None)})
        for _ in range(2):  # its rows are written again
            assert check.admit(counts, check.begin())

    epoch(1, own_records=0, others=6)
    epoch(2, own_records=1, others=6)
    epoch(3, own_records=0, others=6)
    epoch(4, own_records=0, others=4)
    with pytest.raises(WrongSourceError, match=r"db\.new \(in a\), db\.t"):
        epoch(5, own_records=0, others=1)


def test_two_tables_in_an_epoch(checkpoint: JobFolder) -> None:
    check = check_of(checkpoint)
    with pytest.raises(WrongSourceError) as error:
        check.admit(counts_of({("a", "db.t"): 20, ("b", "db.u"): 20}), check.begin())
    assert error.value.problem == (
        "the records are of 2 tables of the source: db.t (in a), db.u (in b)"
    )
    assert "topic b, partition 0, offset 1: db.u" in error.value.where
    assert "source.merge-shards = true" in error.value.fix
    assert remembered_tables(checkpoint) == {}, "the epoch did not come about"


def test_another_table_in_a_later_epoch_of_a_later_start(checkpoint: JobFolder) -> None:
    check = check_of(checkpoint)
    check.admit(counts_of({("a", "db.t"): 1}), check.begin())
    later = check_of(checkpoint)
    with pytest.raises(WrongSourceError, match=r"db\.t .* db\.u"):
        later.admit(counts_of({}, others=11, other=("a", "db.u")), later.begin())


def test_a_stranger_with_ten_thousand_tables_is_reported_in_a_few_words(
    checkpoint: JobFolder,
) -> None:
    check = check_of(checkpoint)
    with pytest.raises(WrongSourceError) as error:
        check.admit(counts_of({("a", f"t{number}"): 1 for number in range(10_000)}), check.begin())
    assert len(str(error.value)) < 1000


def test_counts_keep_the_first_record_of_each_table() -> None:
    first = DecodeCounts(tables={("a", "t"): (1, 5), ("a", "u"): (0, 9)})
    second = DecodeCounts(tables={("a", "t"): (0, 7)})
    assert first.plus(second).tables == {("a", "t"): (0, 7), ("a", "u"): (0, 9)}
