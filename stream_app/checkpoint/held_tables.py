"""The held tables of a job, and the requests to retry one: ``resume/NAME.json``.

Another process makes requests while the job runs and writes its state. Two writers of one file
would lose each other's changes, so each request is a file of its own in the job's checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from stream_app.checkpoint.held_table import HeldTable
from stream_app.checkpoint.job_folder import JobFolder
from stream_app.checkpoint.job_state import JobStateFile, state_or_empty
from stream_app.checkpoint.retry_policy import next_held_state
from stream_app.model.job_epoch import Offsets


def resume(checkpoint: JobFolder, name: str, now_ms: int) -> None:
    """Ask the running job, or the next one, to retry a held table.

    Raises:
        KeyError: the table is not held.
    """
    state = state_or_empty(checkpoint)
    document = {"at_ms": now_ms, "tries": state.held_tables[name].tries}
    checkpoint.file_io.overwrite(
        checkpoint.path(f"resume/{name}.json"), json.dumps(document).encode()
    )


def _is_resumed(checkpoint: JobFolder, name: str, held_table: HeldTable) -> bool:
    """Return whether an operator has requested a retry since the table's last failure."""
    try:
        request = json.loads(checkpoint.file_io.read_bytes(checkpoint.path(f"resume/{name}.json")))
    except FileNotFoundError:
        return False
    return bool(request["at_ms"] > held_table.since_ms and request["tries"] == held_table.tries)


class HeldTables:
    """The held tables of a running job, in its state; `JobStateFile.write` persists them."""

    def __init__(
        self,
        state_file: JobStateFile,
        now_ms: Callable[[], int],
        on_change: Callable[[str, HeldTable | None], None],
    ) -> None:
        """Start from the job's remembered state.

        Args:
            on_change: called with a table's name, and its state if it is held.
        """
        self._state_file = state_file
        self._now_ms = now_ms
        self._on_change = on_change
        for name, held_table in self.by_name.items():
            on_change(name, held_table)

    @property
    def by_name(self) -> Mapping[str, HeldTable]:
        """The held tables; one may not exist yet."""
        return self._state_file.state.held_tables

    def hold(self, name: str, error: BaseException, *, epoch: int, start: Offsets) -> HeldTable:
        """Hold a table back.

        Args:
            epoch, start: the first epoch and the first offsets that it lacks.
        """
        held_table = next_held_state(
            error,
            epoch=epoch,
            start=start,
            now_ms=self._now_ms(),
            earlier_table=self.by_name.get(name),
        )
        self._note({**self.by_name, name: held_table})
        self._on_change(name, held_table)
        return held_table

    def release(self, name: str) -> None:
        """Release a held table that has caught up."""
        other_tables = {
            other: held_table for other, held_table in self.by_name.items() if other != name
        }
        self._note(other_tables)
        self._on_change(name, None)

    def advance(self, name: str, start: Offsets) -> None:
        """Record that a held table has everything before these offsets."""
        held_table = replace(self.by_name[name], start=start)
        self._note({**self.by_name, name: held_table})

    def make_all_tables_due(self) -> None:
        """Make all held tables due, because the cause may have been fixed before the start."""
        now_ms = self._now_ms()
        due_tables = {
            name: replace(held_table, retry_ms=now_ms) for name, held_table in self.by_name.items()
        }
        self._note(due_tables)

    def due(self) -> Mapping[str, HeldTable]:
        """Return the held tables whose next retry is due."""
        now_ms = self._now_ms()
        checkpoint = self._state_file.checkpoint
        return {
            name: held_table
            for name, held_table in self.by_name.items()
            if (held_table.retry_ms is not None and held_table.retry_ms <= now_ms)
            or _is_resumed(checkpoint, name, held_table)
        }

    def _note(self, held_tables: Mapping[str, HeldTable]) -> None:
        self._state_file.note(replace(self._state_file.state, held_tables=held_tables))
