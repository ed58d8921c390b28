"""Manages the folder of the demo: it deletes the files of an earlier demo, and no others."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from stream_app.errors import UsageError

_MARK_FILE = ".stream_app-demo"


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folder for all files of the demo."""

    root: Path

    @property
    def work(self) -> Path:
        """The folder of the broker, the checkpoint, the quarantine and the logs."""
        return self.root / "demo-work"

    @property
    def database(self) -> Path:
        """The folder of the tables, in a database that no example writes."""
        return self.root / "warehouse" / "demo.db"

    def clear(self) -> None:
        """Delete the files of an earlier demo, and no others.

        Raises:
            UsageError: a folder with the demo's name has files of others.
        """
        mark_file = self.work / _MARK_FILE
        is_own = mark_file.exists()
        if is_own and self.database.exists() and mark_file.read_text() not in ("", self._state()):
            raise UsageError(
                f"{self.database} has been written since the demo made it",
                fix="choose another folder with --dir, or delete the tables yourself",
            )
        for path in (self.work, self.database):
            if path.exists() and not is_own:
                raise UsageError(
                    f"{path} is there already and is not an earlier demo's",
                    fix="choose another folder with --dir",
                )
        for path in (self.database, self.work):
            shutil.rmtree(path, ignore_errors=True)
        self.work.mkdir(parents=True)
        (self.work / _MARK_FILE).touch()

    def write_end(self) -> None:
        """Write the last snapshots into the mark: a later demo keeps tables with newer ones."""
        (self.work / _MARK_FILE).write_text(self._state())

    def _state(self) -> str:
        """Return the names of all schemas and snapshots, and each table's first schema.

        The first schema identifies its table.
        """
        first_schemas = sorted(self.database.glob("*/schema/schema-0"))
        names = sorted(self.database.glob("*/s[cn]*/s[cn]*-*"))
        return "\n".join(
            [*(path.read_text() for path in first_schemas)]
            + [str(path.relative_to(self.database)) for path in names]
        )


def short_path(path: Path) -> str:
    """Return the path relative to the current folder, if it is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
