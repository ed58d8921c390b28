"""An error of the file system becomes one that names the remedy and whoever can apply it."""

from __future__ import annotations

import errno
import os

import pytest

from stream_app.table.storage_errors import storage_error


@pytest.mark.parametrize(
    ("number", "code", "fix"),
    [
        (errno.ENOSPC, 1, "free space on the disk"),
        (errno.EDQUOT, 1, "quota"),
        (errno.ENOENT, 1, "see that it and its folder exist"),
        (errno.EIO, 1, "mounted and sound"),
        (errno.EACCES, 2, "the user of this process"),
        (errno.EPERM, 2, "the user of this process"),
        (errno.EROFS, 2, "mounted for reading only"),
        (errno.ENOTDIR, 2, "a file where a folder is wanted"),
        (errno.EEXIST, 2, "a file where a folder is wanted"),
        (errno.ENAMETOOLONG, 2, "give a shorter name"),
        (errno.ELOOP, 2, "a link in the path"),
    ],
)
def test_each_refusal_has_its_own_mending(number: int, code: int, fix: str) -> None:
    error = storage_error(OSError(number, os.strerror(number), "/x/y"))
    assert error.exit_code == code
    assert error.where == "/x/y"
    assert fix in error.fix
    assert ("free space" in error.fix) == (number in (errno.ENOSPC, errno.EDQUOT))


def test_a_store_may_have_rights_again_tomorrow() -> None:
    error = storage_error(PermissionError(errno.EACCES, "denied", "s3://bucket/x"))
    assert error.exit_code == 1
    assert "s3.access-key" in error.fix
