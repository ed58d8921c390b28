"""Files of Spark's that a power cut has left empty: what is mended, and what is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.app.tables.damaged_checkpoint import Mending, mend_checkpoint, mending
from stream_app.errors import CheckpointError
from stream_app.model.job_epoch import JobEpoch

END = '{"t":{"0":30}}'
SETTINGS = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":7,"conf":{"a":"b"}}'


def in_a_table(epoch: int, end: str | None = END) -> JobEpoch:
    return JobEpoch(identifier=epoch, time_millis=0, source_end=end)


@pytest.mark.parametrize(
    ("empty", "newest", "plan"),
    [
        ([], in_a_table(4), Mending()),
        (["commits/4"], in_a_table(4), Mending(commits=(4,))),
        (["commits/4"], in_a_table(3), Mending(commits=(4,))),
        (["offsets/5"], in_a_table(4), Mending(dropped=(5,))),
        (["offsets/5"], None, Mending(dropped=(5,))),
        (["offsets/5"], in_a_table(5), Mending(offsets=(5,))),
        (["offsets/5"], in_a_table(5, None), Mending(lost=("offsets/5",))),
        (["offsets/5", "commits/5"], in_a_table(4), Mending(dropped=(5,))),
        (["offsets/5", "commits/5"], in_a_table(5), Mending(offsets=(5,), commits=(5,))),
        (["offsets/4"], in_a_table(4), Mending(lost=("offsets/4",))),
        (["sources/0/0"], in_a_table(4), Mending(lost=("sources/0/0",))),
    ],
)
def test_what_becomes_of_an_empty_file(
    empty: list[str], newest: JobEpoch | None, plan: Mending
) -> None:
    assert mending(empty, range(6), newest) == plan


def checkpoint(folder: Path, **files: str) -> Path:
    """Of five epochs; each file has a checksum."""
    texts = {"metadata": '{"id":"q"}', "sources/0/0": 'v1\n{"t":{"0":0}}'}
    for epoch in range(5):
        texts[f"offsets/{epoch}"] = f'{SETTINGS}\n{{"t":{{"0":{epoch * 10}}}}}'
        texts[f"commits/{epoch}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    for name, text in {**texts, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / f".{path.name}.crc").write_text("a checksum")
    return folder


def test_files_are_written_again_as_spark_writes_them(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, **{"offsets/4": "\0\0\0", "commits/4": ""})
    mend_checkpoint(folder, [None, in_a_table(3, "other"), in_a_table(4)])
    assert (folder / "offsets/4").read_text() == f"{SETTINGS}\n{END}"
    assert (folder / "commits/4").read_text() == (folder / "commits/3").read_text()
    assert not list(folder.rglob(".4.crc"))
    assert len(list(folder.rglob(".*.crc"))) == 10


def test_an_epoch_that_no_table_has_is_planned_anew(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, **{"offsets/4": ""})
    mend_checkpoint(folder, [in_a_table(3)])
    assert not (folder / "offsets/4").exists()
    assert not (folder / "commits/4").exists()
    assert (folder / "offsets/3").exists()


@pytest.mark.parametrize("name", ["metadata", "sources/0/0", "offsets/2"])
def test_what_is_lost_is_named_and_stays(tmp_path: Path, name: str) -> None:
    folder = checkpoint(tmp_path, **{name: "", "commits/4": ""})
    with pytest.raises(CheckpointError, match=f"{name} of the checkpoint is empty") as told:
        mend_checkpoint(folder, [in_a_table(4)])
    assert "source.starting-offsets" in told.value.fix
    assert (folder / "commits/4").read_text() == ""


def test_an_epoch_of_a_database_that_brought_no_change_is_not_forgotten(tmp_path: Path) -> None:
    """Its tables have no snapshot of it, and the job knows it as done."""
    folder = checkpoint(tmp_path, **{"offsets/4": ""})
    with pytest.raises(CheckpointError, match="offsets/4 of the checkpoint is empty"):
        mend_checkpoint(folder, [in_a_table(3), in_a_table(4, None)])
