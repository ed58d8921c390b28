"""What versions before ``job_state.json`` left in a checkpoint, as that document.

The first release has ``stream_app.json`` alone. Later development versions had a file for each
part.
"""

from __future__ import annotations

import json
from typing import Any

from stream_app.errors import CheckpointError
from stream_app.spark.job_folder import Folder

_OWNER, _TABLES, _SOURCES = "stream_app.json", "tables.json", "sources.json"
_ORIGINS, _REFUSED = "origins.json", "refused.json"
_FILES = (_OWNER, _TABLES, _SOURCES, _ORIGINS, _REFUSED)


def read(folder: Folder) -> dict[str, Any] | None:
    """The document of version 1 that has the same; None: there is no such file.

    Raises:
        CheckpointError: a file is damaged.
    """
    files = {name: _read(folder, name) for name in _FILES}
    if all(document is None for document in files.values()):
        return None
    try:
        owner: dict[str, Any] = {"table": "", "table_identity": "", **(files[_OWNER] or {})}
        tables = {"epoch": -1, "newest": {}, "held": {}, **(files[_TABLES] or {})}
        source_tables = dict(files[_SOURCES] or {})
        if own := owner.pop("tables", None):
            source_tables[""] = own  # of a job of one table
    except (ValueError, TypeError) as error:
        raise _damaged(folder, f"{_OWNER}, {_TABLES} or {_SOURCES}", error) from None
    return {
        "version": 1,
        "topic_ids": {},
        **owner,
        **tables,
        "source_tables": source_tables,
        "origins": files[_ORIGINS] or [],
        "refused": files[_REFUSED] or [],
    }


def delete(folder: Folder) -> None:
    """Delete the files, which ``job_state.json`` has replaced."""
    for name in {*_FILES}.intersection(folder.files.list_names(folder.location)):
        folder.files.delete(folder.path(name))


def _read(folder: Folder, name: str) -> Any:
    try:
        return json.loads(folder.files.read_bytes(folder.path(name)))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _damaged(folder, name, error) from None


def _damaged(folder: Folder, name: str, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{name} of the checkpoint is damaged: {error}",
        where=str(folder),
        fix="restore it with the checkpoint, or give the job a new checkpoint folder "
        "(stream.checkpoint)",
    )
