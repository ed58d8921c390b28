"""The catalog of ``stream-app demo --catalog``, in files of the demo's folder."""

from __future__ import annotations

import json
import shlex

from stream_app.demo.demo_folder import DemoFolder, short_path
from stream_app.demo.progress_panel import program


class DemoCatalog:
    """The catalog of ``--catalog``: names in SQLite, and Iceberg metadata with each snapshot."""

    def __init__(self, folder: DemoFolder) -> None:
        self._file = folder.work / "catalogs.toml"
        self._options = {
            "metastore": "jdbc",
            "uri": f"jdbc:sqlite:{folder.work / 'catalog.db'}",
            "warehouse": str(folder.root / "warehouse"),
        }

    def settings(self) -> list[str]:
        """Return the settings that ``--catalog`` adds to the job's configuration."""
        table_options = {
            "metadata.iceberg.storage": "table-location",
            "metadata.iceberg.format-version": "3",
            "deletion-vectors.enabled": "true",
            "deletion-vectors.bitmap64": "true",
        }
        return [
            *(f"catalog.{key}={self._options[key]}" for key in ("metastore", "uri")),
            *(f"sync.options.{key}={value}" for key, value in table_options.items()),
        ]

    def write_file(self) -> str:
        """Write the file of catalogs; return a command that reads a table by its name."""
        lines = [f"{key} = {json.dumps(value)}\n" for key, value in self._options.items()]
        self._file.write_text("".join(["[lake]\n", *lines]), encoding="utf-8")
        file = shlex.quote(short_path(self._file))
        return f"STREAM_APP_CATALOGS={file} {program()} read lake.demo.orders --limit 5"
