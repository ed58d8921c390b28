"""The branches of a table: ``branch/branch-<name>``, each with snapshots and tags of its own.

A branch begins as a copy of a snapshot; its data files, manifests and index files lie in the main
table's folders. We write no branches, and leave alone what they name.

Source: Paimon `utils/BranchManager.java`.
"""

from __future__ import annotations

from stream_app.fileio.file_io import FileIO

_PREFIX = "branch-"


def branch_roots(file_io: FileIO, root: str) -> list[str]:
    """The folders of all branches of the table at `root`, in which snapshots and tags lie."""
    folder = f"{root}/branch"
    names = sorted(file_io.list_names(folder))
    return [f"{folder}/{name}" for name in names if name.startswith(_PREFIX)]
