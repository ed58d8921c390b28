"""Requests to try a held table again: ``resume/NAME.json`` in the job's checkpoint.

Another process makes them while the job runs and writes its state. Two writers of one file would
lose each other's changes, so each request is a file of its own.
"""

from __future__ import annotations

import json

from stream_app.spark.ingest.held_tables import HeldTable
from stream_app.spark.ingest.job_state import state_of
from stream_app.spark.job_folder import Folder


def resume(folder: Folder, name: str, now_ms: int) -> None:
    """Ask the running job, or the next one, to try a held table again.

    Raises:
        KeyError: the table is not held.
    """
    state = state_of(folder)
    document = {"at_ms": now_ms, "tries": state.held[name].tries}
    folder.files.overwrite(folder.path(f"resume/{name}.json"), json.dumps(document).encode())


def is_resumed(folder: Folder, name: str, waiting: HeldTable) -> bool:
    """Whether there is a request since the table's last failure."""
    try:
        request = json.loads(folder.files.read_bytes(folder.path(f"resume/{name}.json")))
    except FileNotFoundError:
        return False
    return bool(request["at_ms"] > waiting.since_ms and request["tries"] == waiting.tries)
