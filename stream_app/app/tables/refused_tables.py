"""Source tables of which a job stores nothing, and why: ``refused.json`` of its checkpoint.

The job writes it when messages of such a table are set aside, and `status`, `check`, `doctor` and
the page tell it. What has got its table since, or is left out by the configuration, is not told.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from stream_app.errors import CheckpointError
from stream_app.model.schema.origin import Origin
from stream_app.planning.sync.target_tables import LeftOut, SyncRules, decide
from stream_app.spark.job_folder import Folder

_FILE = "refused.json"
TABLES_MAX = 1000
"""Messages may hold any number of names."""


@dataclass(slots=True)
class RefusedTables:
    """Keeps and persists them.

    Attributes:
        folder: the checkpoint.
        reasons: source table → why its messages are set aside.
    """

    folder: Folder
    reasons: dict[Origin, str] = field(init=False)

    def __post_init__(self) -> None:
        self.reasons = _read(self.folder)

    def see(self, reasons: Mapping[Origin, str], taken: Collection[Origin]) -> None:
        """Messages were set aside; tables that the job has are not refused."""
        kept = {origin: why for origin, why in self.reasons.items() if origin not in taken}
        for origin, why in reasons.items():
            if origin not in taken and (origin in kept or len(kept) < TABLES_MAX):
                kept[origin] = why
        if kept != self.reasons:
            self.reasons = kept
            document = [
                {"database": it.database, "schema": it.schema, "table": it.table, "reason": why}
                for it, why in sorted(kept.items())
            ]
            data = json.dumps(document, indent=1).encode()
            self.folder.files.overwrite(self.folder.path(_FILE), data)


def refused_tables(
    checkpoint: Folder, rules: SyncRules, taken: Mapping[Origin, str]
) -> dict[Origin, str]:
    """Source tables that the job should take and has no table of → why, by name.

    Args:
        taken: the source tables that have a table.

    Raises:
        CheckpointError: the file is damaged.
    """
    return {
        origin: why
        for origin, why in sorted(_read(checkpoint).items())
        if origin not in taken and not isinstance(decide(rules, origin, taken), LeftOut)
    }


def _read(folder: Folder) -> dict[Origin, str]:
    try:
        document = json.loads(folder.files.read_bytes(folder.path(_FILE)))
        return {
            Origin(each["database"], each["schema"], each["table"]): str(each["reason"])
            for each in document
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{_FILE} of the checkpoint is damaged: {error}",
            where=str(folder),
            fix="delete it: the job writes it anew with the next such messages",
        ) from None
