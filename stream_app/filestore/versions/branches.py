"""The branches of a table: ``branch/branch-<name>``, each with snapshots and tags of its own.

A branch begins as a copy of a snapshot; its data files, manifests and index files lie in the main
table's folders. stream_app writes no branches, and keeps their files.

Source: Paimon `utils/BranchManager.java`.
"""

from __future__ import annotations

import re

from stream_app.fileio.file_io import FileIO

_PREFIX = "branch-"


def branch_names(file_io: FileIO, root: str) -> list[str]:
    """The names of all branches of the table at `root`, in order."""
    return sorted(
        status.name.removeprefix(_PREFIX)
        for status in file_io.list_status(f"{root}/branch")
        if status.is_folder and status.name.startswith(_PREFIX)
    )


def branch_root(root: str, name: str) -> str:
    """The folder in which a branch's schemas, snapshots and tags lie."""
    return f"{root}/branch/{_PREFIX}{name}"


def table_and_branch(file_io: FileIO, path: str) -> tuple[str, str]:
    """A branch folder's table folder and branch name; for other folders the path and ""."""
    match = re.fullmatch(rf"(.+)/branch/{_PREFIX}([^/]+)", path)
    # Otherwise it is a table with such a name.
    if match and file_io.list_status(f"{match[1]}/schema"):
        return match[1], match[2]
    return path, ""


def branch_roots(file_io: FileIO, root: str) -> list[str]:
    """The folders of all branches of the table at `root`."""
    return [branch_root(root, name) for name in branch_names(file_io, root)]
