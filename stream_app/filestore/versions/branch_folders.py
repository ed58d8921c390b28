"""Handles a table's branches, ``branch/branch-<name>``, each with separate snapshots and tags.

A branch begins empty or as a copy of a snapshot. Its data files, manifests and index files are in
the main table's folders. A path ``…/table$branch_<name>`` names it, as in Paimon.

Source: Paimon `utils/BranchManager.java`.
"""

from __future__ import annotations

import re

from stream_app.errors import UsageError
from stream_app.fileio.file_io import FileIO

MAIN = "main"
_PREFIX = "branch-"
BRANCH_MARK = "$branch_"


def branch_names(file_io: FileIO, root: str) -> list[str]:
    """Return the names of all branches of the table at `root`, in order."""
    return sorted(
        status.name.removeprefix(_PREFIX)
        for status in file_io.list_status(f"{root}/branch")
        if status.is_folder and status.name.startswith(_PREFIX)
    )


def branch_root(root: str, name: str) -> str:
    """Return the folder of a branch's schemas, snapshots and tags."""
    return f"{root}/branch/{_PREFIX}{name}"


def branch_path(path: str) -> str:
    """Return the folder of ``…/table$branch_<name>``; other paths stay unchanged."""
    root, mark, name = path.rpartition(BRANCH_MARK)
    if not mark or "/" in name:
        return path
    return root if name == MAIN else branch_root(root, name)


def check_branch_name(name: str) -> None:
    """Check that a new branch can have a name.

    Raises:
        UsageError: it cannot.
    """
    if name == MAIN or name.isdigit() or not re.fullmatch(r"[^/\\$\s\x00-\x1f]+", name):
        raise UsageError(
            f"a branch cannot be named {name!r}",
            fix="give a name that a folder can have, with a letter, such as try-out",
        )


def table_and_branch(file_io: FileIO, path: str) -> tuple[str, str]:
    """Return a branch folder's table folder and branch name; for other folders the path and ""."""
    match = re.fullmatch(rf"(.+)/branch/{_PREFIX}([^/]+)", path)
    # Otherwise the folder is a table with such a name.
    if match and file_io.list_status(f"{match[1]}/schema"):
        return match[1], match[2]
    return path, ""


def delete_branch_files(file_io: FileIO, root: str, name: str) -> None:
    """Delete a branch's folder. A repetition completes a crashed deletion.

    Raises:
        OSError: the file system refused.
    """
    _delete_tree(file_io, branch_root(root, name))
    file_io.sync_deletions(f"{root}/branch")


def _delete_tree(file_io: FileIO, folder: str) -> None:
    for status in file_io.list_status(folder):
        path = f"{folder}/{status.name}"
        if status.is_folder:
            _delete_tree(file_io, path)
        else:
            file_io.delete(path)
    file_io.sync_deletions(folder)
    file_io.delete_empty_folder(folder)


def version_roots(file_io: FileIO, root: str) -> list[str]:
    """Return the folders with versions: `root` for the main branch, and those of other branches."""
    return [root, *(branch_root(root, name) for name in branch_names(file_io, root))]
