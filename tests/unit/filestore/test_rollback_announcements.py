"""Announcements of rollbacks: a file each, beside the tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.errors import CorruptFileError
from stream_app.fileio.local_file_io import LocalFileIO
from stream_app.filestore.rollback_announcements import RollbackAnnouncements
from stream_app.filestore.tag_manager import TagManager
from stream_app.model.rollback_announcement import RollbackAnnouncement
from tests.support.faulty_file_io import Fault, FaultyFileIO, InjectedError

ONE = RollbackAnnouncement(target=3, going={4: "manifest-list-a-1", 5: ""})
OTHER = RollbackAnnouncement(target=1, going={})


def test_what_was_announced_is_there_until_it_is_withdrawn(tmp_path: Path) -> None:
    announcements = RollbackAnnouncements(LocalFileIO(), str(tmp_path))
    assert announcements.announcements() == {}
    one, other = announcements.announce(ONE), announcements.announce(OTHER)
    assert announcements.announcements() == {one: ONE, other: OTHER}
    assert TagManager(LocalFileIO(), str(tmp_path)).tags() == []
    announcements.withdraw(one)
    announcements.withdraw(one)
    assert announcements.announcements() == {other: OTHER}


def test_one_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    announcements = RollbackAnnouncements(LocalFileIO(), str(tmp_path))
    file = tmp_path / "tag" / announcements.announce(ONE)
    file.write_text("{}")
    with pytest.raises(CorruptFileError, match="cannot read a tag/rolling-back file") as told:
        announcements.announcements()
    assert told.value.where == str(file)
    assert told.value.fix == "when no rollback of the table is running, delete the file"


def test_what_seemed_to_fail_was_not_said(tmp_path: Path) -> None:
    fault = Fault(at=0, mode="after")
    announcements = RollbackAnnouncements(FaultyFileIO(fault), str(tmp_path))
    with pytest.raises(InjectedError):
        announcements.announce(ONE)
    assert fault.has_struck
    assert announcements.announcements() == {}
