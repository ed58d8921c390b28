"""`local_disk` finds the folder of local files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from stream_app.process.local_disk import kept_folder, local_disk, scratch_file, scratch_folder


def test_local_files_lie_where_tmpdir_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert kept_folder("lookup") == tmp_path / f"stream_app-{os.getuid()}" / "lookup"
    with scratch_folder("spill") as scratch:
        assert Path(scratch).parent == tmp_path
    with scratch_file("hashes") as file:
        file.write(b"1")
    assert list(tmp_path.iterdir()) == [], "scratch is gone, and nothing else was made"


@pytest.mark.parametrize("folder", ["", "relative", "/there/is/no/such/folder"])
def test_an_unusable_tmpdir_is_ignored(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", folder)
    assert local_disk() == Path(tempfile.gettempdir())
