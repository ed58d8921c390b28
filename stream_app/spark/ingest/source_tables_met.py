"""Remembers in a job of many tables of which source tables each table has rows.

Shards of one table become one table, and a TRUNCATE of one of them must not delete the others'
rows. The file is ``sources.json`` in the checkpoint's folder. It is written before the rows of a
new source table are committed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from stream_app.errors import CheckpointError
from stream_app.spark.epoch.decode_counts import TablesSeen
from stream_app.spark.ingest.truncation import SourcesMet, with_seen
from stream_app.spark.job_folder import Folder

_FILE = "sources.json"


@dataclass(slots=True)
class SourceTablesMet:
    """The source tables of each table, by its name in the job.

    Attributes:
        folder: the checkpoint.
    """

    folder: Folder
    _met: dict[str, SourcesMet] | None = field(init=False, default=None)

    def of(self, name: str) -> SourcesMet:
        """Those of one table.

        Raises:
            CheckpointError: the file is damaged.
        """
        return self.all().get(name, {})

    def take(self, seen: Mapping[str, TablesSeen]) -> None:
        """Take in what an epoch has shown of each table; writes the file if that is new."""
        known = self.all()
        news = {
            name: with_seen(known.get(name, {}), tables)
            for name, tables in seen.items()
            if any(source not in known.get(name, {}).get(topic, ()) for topic, source in tables)
        }
        if news:
            known.update(news)
            data = json.dumps(known).encode()
            self.folder.files.overwrite(self.folder.path(_FILE), data)

    def all(self) -> dict[str, SourcesMet]:
        """Those of each table.

        Raises:
            CheckpointError: the file is damaged.
        """
        if self._met is None:
            self._met = self._read()
        return self._met

    def _read(self) -> dict[str, SourcesMet]:
        try:
            document = json.loads(self.folder.files.read_bytes(self.folder.path(_FILE)))
            return {
                str(name): {str(topic): list(names) for topic, names in topics.items()}
                for name, topics in document.items()
            }
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            raise CheckpointError(
                f"{_FILE} of the checkpoint is damaged: {error}",
                where=str(self.folder),
                fix="restore it with the checkpoint; without it the job cannot know which rows a "
                "TRUNCATE deletes",
            ) from None
