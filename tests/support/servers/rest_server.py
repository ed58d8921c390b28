"""Paimon's own test server of its REST catalog, in a JVM for the whole test session.

It is the class RESTCatalogServer of Paimon's tests, whose jar Maven's registry has. It keeps the
tables of a warehouse in a folder, and forgets them when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.judges.line_server import LineServer
from tests.support.judges.paimon_jars import rest_server_jars
from tests.support.judges.paimon_jvm import (
    JVM_OPTIONS,
    class_path_of_paimon,
    compiled_folder,
    java_tool,
)

SOURCES = Path(__file__).with_name("paimon_rest")
TOKEN = "a-token-of-the-tests"
_LATER_MS = 4_102_444_800_000  # in 2100


@dataclass(frozen=True, slots=True)
class RestWarehouse:
    """One warehouse with a server of its own.

    Attributes:
        options: by which a catalog, ours or Paimon's, opens it.
    """

    server: LineServer
    folder: Path
    options: Mapping[str, str]

    def forbid(self, database: str, table: str) -> None:
        """Let the server answer 403 for a table from here on."""
        _call(
            self.server,
            {"command": "forbid", "folder": str(self.folder), "database": database, "table": table},
        )

    def give(self, database: str, table: str, token: Mapping[str, str]) -> None:
        """Set the login that the server gives for a table's files."""
        _call(
            self.server,
            {
                "command": "give", "folder": str(self.folder), "identifier": [database, table],
                "token": dict(token), "until": _LATER_MS,
            },
        )  # fmt: skip


class RestServer:
    """A JVM that starts at once; close it.

    Args:
        jars: file systems of Paimon, for instance.
    """

    def __init__(self, jars: Sequence[Path] = ()) -> None:
        class_path = ":".join([class_path_of_paimon(), *map(str, rest_server_jars())])
        classes = compiled_folder(SOURCES, class_path)
        class_path = ":".join([*map(str, jars), class_path])
        self._server = LineServer(
            [java_tool("java"), *JVM_OPTIONS, "-cp", f"{classes}:{class_path}", "RestServer"]
        )

    def close(self) -> None:
        self._server.close()

    def warehouse(
        self,
        folder: Path,
        *,
        defaults: Mapping[str, str] | None = None,
        overrides: Mapping[str, str] | None = None,
        location: str | None = None,
        store: Mapping[str, str] | None = None,
    ) -> RestWarehouse:
        """Return a new warehouse; its server's configuration has these options, and a prefix.

        Args:
            location: where the server keeps the tables; None: in the folder.
            store: the server's own login there, which no client gets.
        """
        name = folder.name
        answer = _call(
            self._server,
            {
                "command": "start", "folder": str(folder), "warehouse": name, "token": TOKEN,
                "defaults": {"prefix": "lake", **(defaults or {})},
                "overrides": dict(overrides or {}), "location": location,
                "store": dict(store or {}),
            },
        )  # fmt: skip
        options = {
            "metastore": "rest", "uri": answer["uri"], "warehouse": name,
            "token.provider": "bear", "token": TOKEN,
        }  # fmt: skip
        return RestWarehouse(self._server, folder, options)


def _call(server: LineServer, request: Mapping[str, object]) -> Mapping[str, str]:
    answer: Mapping[str, str] = server.call(request)
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer
