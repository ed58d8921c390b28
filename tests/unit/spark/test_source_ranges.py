"""Ranges of epochs from a checkpoint's own notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.errors import WrongSourceError
from stream_app.fileio.local_file_io import LocalFileIO
from stream_app.kafka.offset_ranges import OffsetRange
from stream_app.spark.ingest.range_epochs import SourceRanges
from stream_app.spark.job_folder import Folder


@pytest.fixture
def checkpoint(tmp_path: Path) -> Folder:
    """As Spark writes it: the first epoch reads t/0 from 5, the second from 9 on."""
    notes = {
        "sources/0/0": b'\0v1\n{"t":{"0":5}}',
        "offsets/0": b'v1\n{"batchWatermarkMs":0}\n{"t":{"0":9}}',
        "offsets/1": b'v1\n{"batchWatermarkMs":0}\n{"t":{"0":9,"1":3}}',
        "offsets/2": b'v1\n{"batchWatermarkMs":0}\n{"t":{"1":2}}',
    }
    for name, text in notes.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text)
    return Folder(str(tmp_path), LocalFileIO())


@pytest.mark.parametrize(
    ("epoch", "ranges"),
    [(0, [OffsetRange("t", 0, 5, 9)]), (1, [OffsetRange("t", 1, 0, 3)])],
    ids=["first", "with-a-new-partition"],
)
def test_an_epoch_lies_between_two_notes(
    checkpoint: Folder, epoch: int, ranges: list[OffsetRange]
) -> None:
    found = SourceRanges(checkpoint, True).of_epoch(epoch)
    assert (list(found.ranges), list(found.losses)) == (ranges, [])


def test_what_is_gone_is_an_error_or_a_line(
    checkpoint: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(WrongSourceError, match=r"t/0 is gone; t/1 went back from offset 3 to 2"):
        SourceRanges(checkpoint, True).of_epoch(2)
    assert SourceRanges(checkpoint, False).of_epoch(2).ranges == ()
    assert "t/0 is gone" in caplog.text
