"""A key that lacks partition columns has one row, whatever overlaps, repeats or interferes."""

from __future__ import annotations

import contextlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stream_app.epochs.rounds.epoch_committer import EpochCommitter
from stream_app.epochs.rounds.round_commits import SourceEpoch
from stream_app.errors import CommitConflictError
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.table.job.single_append import SingleAppend
from tests.support.engines.epoch_in_caller import Parts
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, Mode
from tests.support.jobs.cross_partition_job import CrossPartitionJob, cross_partition_table
from tests.support.jobs.evolving_job import Job
from tests.support.jobs.table_writer import read_rows
from tests.support.suite.strides import Strides
from tests.support.tables.snapshot_chain import check_chain
from tests.support.tables.sound_table import findings_of

pytestmark = pytest.mark.usefixtures("unsynced")
WHOLE = {"replica-identity": "full", "truncate": "apply"}


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    local = tmp_path / "disk"
    local.mkdir()
    monkeypatch.setenv("TMPDIR", str(local))
    return local


def job_of(folder: Path, **options: str) -> Job:
    table = cross_partition_table(folder / "t", **options)
    return Job(table, rules=None, format_options=WHOLE)


def change(key: int, before: str | None, after: str | None, v: int = 0) -> bytes:
    """A row moves from one partition to another; None: it is not there."""
    images = [None if p is None else {"id": key, "p": p, "v": v} for p in (before, after)]
    op = "c" if before is None else "d" if after is None else "u"
    return json.dumps({"before": images[0], "after": images[1], "op": op}).encode()


def rows_of(job: Job) -> dict[int, tuple[str, int]]:
    rows = read_rows(job.table)
    places = {row["id"]: (row["p"], row["v"]) for row in rows}
    assert len(places) == len(rows), "a key has one row in all partitions"
    return places


def test_epochs_overlap_and_the_job_starts_again(tmp_path: Path, seed: int) -> None:
    job, chance, truth = job_of(tmp_path), random.Random(seed), dict[int, tuple[str, int]]()
    committer = job.started(overlaps=True)
    for epoch in range(20):
        values = []
        for _ in range(chance.randrange(1, 20)):
            key, after = chance.randrange(12), chance.choice(("a", "b", "c", None))
            before = truth.pop(key, (None, 0))[0]
            if after is None and before is None:
                continue
            v = chance.randrange(100)
            if after is not None:
                truth[key] = (after, v)
            # The source's own images are not needed: often the before-image tells no partition.
            before_image = chance.choice((before, None)) if after else before
            values.append(change(key, before_image, after, v))
        job.run(committer, *values or [change(99, None, "a"), change(99, "a", None)])
        if chance.random() < 0.3:
            committer.wait_until_committed()
            committer = job.started(overlaps=chance.random() < 0.5)
            job.repeat(committer, epoch)
    committer.wait_until_committed()
    assert rows_of(job) == truth
    check_chain(job.table)


@pytest.mark.parametrize("lookup", [False, True])
def test_rows_that_another_writer_moves_meanwhile_are_written_anew(
    tmp_path: Path, lookup: bool
) -> None:
    options = {"partition_lookup": "true", "bucket": "2", "keys": "id,p"} if lookup else {}
    job = job_of(tmp_path, **options)
    committer = job.started()
    job.run(committer, *(change(key, None, "a", 1) for key in range(4)))
    other_job = CrossPartitionJob(job.table, user="other")
    epoch, work = job.send(change(0, "a", "c", 3), change(1, "a", None)), committer.round_runner
    decoded_epoch = work.decode(SourceEpoch(epoch, job.parts(epoch), "the end"), work.tables.feeds)
    write, plans = decoded_epoch.routed_epoch.write, list[Any]()

    def overtaken(plan: Any) -> Any:
        output = write(plan)
        if not plans:
            other_job.write(*(("+U", {"id": key, "p": "b", "v": 2}) for key in range(4)))
        plans.append(plan)
        return output

    decoded_epoch = replace(
        decoded_epoch, routed_epoch=replace(decoded_epoch.routed_epoch, write=overtaken)
    )
    work.finish(decoded_epoch, work.tables.feeds)
    assert rows_of(job) == {0: ("c", 3), 2: ("b", 2), 3: ("b", 2)}
    check_chain(job.table)


def test_a_commit_above_rows_that_came_meanwhile_is_refused(tmp_path: Path) -> None:
    table = cross_partition_table(tmp_path / "t")
    job = CrossPartitionJob(table)
    job.write(("+I", {"id": 1, "p": "a", "v": 1}))
    basis = job.commit.bucket_state.basis
    changes = job.written([("+U", {"id": 1, "p": "b", "v": 2})])
    CrossPartitionJob(table, user="other").write(("+U", {"id": 1, "p": "c", "v": 3}))
    with pytest.raises(CommitConflictError, match="a key could be in two partitions"):
        job.commit.commit_epoch(1, changes, basis=basis)
    assert [(row["p"], row["v"]) for row in read_rows(table)] == [("c", 3)]


def test_a_replay_of_quarantined_rows_finds_them_too(tmp_path: Path) -> None:
    table = cross_partition_table(tmp_path / "t")
    job = CrossPartitionJob(table)
    job.write(("+I", {"id": 1, "p": "a", "v": 1}))
    append = SingleAppend.begin(table, "replay")
    append.commit(append.write(job.rows([("+U", {"id": 1, "p": "b", "v": 2})])), {})
    assert [(row["p"], row["v"]) for row in read_rows(table)] == [("b", 2)]


def test_rows_before_a_truncate_are_not_older_rows(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    committer = job.started()
    job.run(committer, *(change(key, None, "a", 1) for key in range(3)))
    truncate = json.dumps({"op": "t", "before": None, "after": None}).encode()
    job.run(committer, change(0, "a", "b", 2), truncate, change(1, None, "b", 3))
    assert rows_of(job) == {1: ("b", 3)}
    job.run(committer, change(1, "b", "c", 4), change(2, None, "c", 4))
    assert rows_of(job) == {1: ("c", 4), 2: ("c", 4)}


@pytest.mark.parametrize("mode", ["before", "after"])
def test_wherever_the_job_ends_a_key_keeps_one_row(
    tmp_path: Path, mode: Mode, strides: Strides
) -> None:
    """A file operation of an epoch ends the job."""
    for operation in strides.operations():
        job = job_of(tmp_path / str(operation))
        job.run(job.started(), *(change(key, None, "a", 1) for key in range(4)))
        fault = Fault(operation, mode, stays_dead=True)
        table, file_io = job.table, FaultyFileIO(fault=fault)
        epoch = job.send(*(change(key, "a", "b", 2) for key in range(1, 3)))
        with contextlib.suppress(Exception):
            job.repeat(_with_files(job, file_io), epoch)
        assert table.file_io == LocalFileIO()
        again = job.started()
        job.repeat(again, epoch)
        job.run(again, change(1, "b", "c", 3), change(3, "a", None))
        assert rows_of(job) == {0: ("a", 1), 1: ("c", 3), 2: ("b", 2)}
        if not fault.has_struck:
            break
    assert operation > 10


def _with_files(job: Job, file_io: FaultyFileIO) -> EpochCommitter[Parts]:
    committer = job.started()
    for feed in committer.tables.feeds:
        feed.table_job.table = replace(feed.table_job.table, file_io=file_io)
    return committer


def test_key_columns_may_have_any_names(tmp_path: Path) -> None:
    names = ("hash", "bucket_code", "age", "sequence", "lives")
    columns = ", ".join(f"{name} BIGINT NOT NULL" for name in names) + ", p STRING, v INT"
    table = cross_partition_table(tmp_path / "t", columns, keys=",".join(names))
    job, key = CrossPartitionJob(table), dict.fromkeys(names, 1)
    job.write(("+I", {**key, "p": "a", "v": 1}), ("+I", {**key, "age": 2, "p": "a", "v": 2}))
    job.write(("+U", {**key, "p": "b", "v": 3}), ("-D", {**key, "age": 2, "p": "a", "v": 2}))
    CrossPartitionJob(table, user="next").write(("+U", {**key, "p": "c", "v": 4}))
    assert [(row["p"], row["v"]) for row in read_rows(table)] == [("c", 4)]
    assert findings_of(table) == []
