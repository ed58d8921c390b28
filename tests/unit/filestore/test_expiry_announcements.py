"""Announcements of expiries: a file each, beside the tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.errors import CorruptFileError
from stream_app.fileio.local_file_io import LocalFileIO
from stream_app.filestore.expiry_announcements import ExpiryAnnouncements
from stream_app.filestore.tag_manager import TagManager
from stream_app.model.expiry_announcement import ExpiryAnnouncement

ONE = ExpiryAnnouncement(begin=3, end=7, end_list="manifest-list-a-0", tagged=frozenset({4, 6}))
OTHER = ExpiryAnnouncement(begin=3, end=9, end_list="manifest-list-b-0")


def test_what_was_announced_is_there_until_it_is_withdrawn(tmp_path: Path) -> None:
    announcements = ExpiryAnnouncements(LocalFileIO(), str(tmp_path))
    assert announcements.announcements() == {}
    one, other = announcements.announce(ONE), announcements.announce(OTHER)
    assert announcements.announcements() == {one: ONE, other: OTHER}
    assert TagManager(LocalFileIO(), str(tmp_path)).tags() == []
    announcements.withdraw(one)
    announcements.withdraw(one)
    assert announcements.announcements() == {other: OTHER}


@pytest.mark.parametrize("text", ["", "[]", '{"begin": 3}'])
def test_one_that_cannot_be_read_says_what_to_do(tmp_path: Path, text: str) -> None:
    announcements = ExpiryAnnouncements(LocalFileIO(), str(tmp_path))
    file = tmp_path / "tag" / announcements.announce(ONE)
    file.write_text(text)
    with pytest.raises(CorruptFileError, match="cannot read a tag/expiring file") as told:
        announcements.announcements()
    assert told.value.where == str(file)
    assert told.value.fix == "when no expiry of the table is running, delete the file"
