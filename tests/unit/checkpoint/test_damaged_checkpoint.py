"""Errors name the files of Spark's that a power cut left empty, and nothing deletes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.checkpoint.damaged_checkpoint import check_whole
from stream_app.errors import CheckpointError


def checkpoint(folder: Path, **files: str) -> Path:
    """Write a checkpoint of two epochs; each file has a checksum."""
    texts = {"metadata": '{"id":"q"}', "sources/0/0": 'v1\n{"t":{"0":0}}'}
    for epoch in range(2):
        texts[f"offsets/{epoch}"] = f'v1\n{{}}\n{{"t":{{"0":{epoch * 10}}}}}'
        texts[f"commits/{epoch}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    for name, text in {**texts, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / f".{path.name}.crc").write_text("a checksum")
    return folder


@pytest.mark.parametrize("name", ["metadata", "sources/0/0", "offsets/1", "commits/1"])
@pytest.mark.parametrize("text", ["", "\0\0\0"])
def test_the_error_names_the_damaged_file_and_keeps_it(
    tmp_path: Path, name: str, text: str
) -> None:
    folder = checkpoint(tmp_path, **{name: text})
    with pytest.raises(CheckpointError, match=f"empty files, .* cut: {name}") as raised:
        check_whole(folder)
    assert "source.starting-offsets" in raised.value.fix
    assert (folder / name).read_text() == text


def test_a_checksum_whose_file_is_gone_is_deleted(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    (folder / "offsets/1").unlink()
    check_whole(folder)
    assert [path.name for path in sorted((folder / "offsets").iterdir())] == [".0.crc", "0"]
