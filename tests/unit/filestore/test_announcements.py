"""Each announcement of an expiry or a rollback is a file beside the tags."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_app.errors import CorruptFileError
from stream_app.fileio.file_io import FileIO
from stream_app.fileio.local.local_file_io import LocalFileIO
from stream_app.filestore.versions.announcement_files import (
    Announcements,
    ExpiryAnnouncement,
    RollbackAnnouncement,
)
from stream_app.filestore.versions.tag_manager import TagManager
from tests.support.files.faulty_file_io import Fault, FaultyFileIO, InjectedError

EXPIRY = ExpiryAnnouncement(
    start=3, end=7, end_list="manifest-list-a-0", tagged_ids=frozenset({4, 6})
)
ROLLBACK = RollbackAnnouncement(target_id=3, delta_lists={4: "manifest-list-a-1", 5: ""})
ANNOUNCEMENTS: dict[str, tuple[Any, Any]] = {
    "expiry": (EXPIRY, ExpiryAnnouncement(start=3, end=9, end_list="manifest-list-b-0")),
    "rollback": (ROLLBACK, RollbackAnnouncement(target_id=1, delta_lists={})),
}
KINDS: dict[str, Any] = {"expiry": ExpiryAnnouncement, "rollback": RollbackAnnouncement}
FOLDERS = {"expiry": "tag/expiring", "rollback": "tag/rolling-back"}


def announcements_of(kind: str, file_io: FileIO, root: Path) -> Announcements[Any]:
    return Announcements(file_io, str(root), KINDS[kind])


@pytest.mark.parametrize("kind", ANNOUNCEMENTS)
def test_an_announcement_lasts_until_it_is_withdrawn(tmp_path: Path, kind: str) -> None:
    announcements, pair = announcements_of(kind, LocalFileIO(), tmp_path), ANNOUNCEMENTS[kind]
    assert announcements.announcements() == {}
    name, other = (announcements.announce(announcement) for announcement in pair)
    assert announcements.announcements() == {name: pair[0], other: pair[1]}
    assert TagManager(LocalFileIO(), str(tmp_path)).tags() == []
    announcements.withdraw(name)
    announcements.withdraw(name)
    assert announcements.announcements() == {other: pair[1]}


def test_expiries_and_rollbacks_are_announced_apart(tmp_path: Path) -> None:
    expiries, rollbacks = (
        announcements_of(kind, LocalFileIO(), tmp_path) for kind in ANNOUNCEMENTS
    )
    expiry, rollback = expiries.announce(EXPIRY), rollbacks.announce(ROLLBACK)
    assert expiries.announcements() == {expiry: EXPIRY}
    assert rollbacks.announcements() == {rollback: ROLLBACK}


@pytest.mark.parametrize("kind", ANNOUNCEMENTS)
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"begin": 3}'])
def test_an_unreadable_announcement_says_how_to_fix_it(
    tmp_path: Path, kind: str, text: str
) -> None:
    announcements = announcements_of(kind, LocalFileIO(), tmp_path)
    file = tmp_path / "tag" / announcements.announce(ANNOUNCEMENTS[kind][0])
    file.write_text(text)
    with pytest.raises(CorruptFileError, match=f"cannot read a {FOLDERS[kind]} file") as raised:
        announcements.announcements()
    assert raised.value.where == str(file)
    assert raised.value.fix == f"when no {kind} of the table is running, delete the file"


@pytest.mark.parametrize("kind", ANNOUNCEMENTS)
def test_a_failed_announcement_announces_nothing(tmp_path: Path, kind: str) -> None:
    fault = Fault(number=0, mode="after")
    announcements = announcements_of(kind, FaultyFileIO(fault), tmp_path)
    with pytest.raises(InjectedError):
        announcements.announce(ANNOUNCEMENTS[kind][0])
    assert fault.has_struck
    assert announcements.announcements() == {}


def test_an_announcement_is_stored_under_these_names() -> None:
    """A job of another version reads them, so a renamed field keeps its stored name."""
    document = json.loads(EXPIRY.encode())
    del document["stream_app.digest"]
    assert document == {
        "begin": 3,
        "end": 7,
        "endDeltaManifestList": "manifest-list-a-0",
        "tagged": [4, 6],
    }
