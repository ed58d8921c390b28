"""Apicurio Registry, a schema registry with Confluent's interface: one JVM on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stream_app.app.launch.java import find_java, unicode_environment
from tests.support.jobs.ingest_process import a_free_port
from tests.testbed.servers.archives import APICURIO_VERSION, apicurio_home
from tests.testbed.servers.server_process import ServerProcess

_JVM_FLAGS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Apicurio:
    """A registry that keeps its schemas in memory; it is up in about three seconds."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="stream_app-apicurio-"))
        port = a_free_port()
        self.server = f"http://127.0.0.1:{port}"
        self.url = f"{self.server}/apis/ccompat/v7"
        runner = apicurio_home() / f"apicurio-registry-app-{APICURIO_VERSION}-runner.jar"
        self._process = ServerProcess(
            [
                str(find_java()), *_JVM_FLAGS, "-Dquarkus.http.host=127.0.0.1",
                f"-Dquarkus.http.port={port}", "-jar", str(runner),
            ],
            self._folder / "registry.log",
            cwd=self._folder,
            env=unicode_environment(os.environ),
        )  # fmt: skip
        try:
            self._process.wait_until(self._serves)
        except BaseException:
            self.close()
            raise

    def add(self, subject: str, schema: Any, **more: Any) -> int:
        """The number of a schema, as a serializer asks for it; a text is one of Protobuf."""
        path = f"/subjects/{subject}/versions"
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return int(self._call(path, {"schema": text, **more})["id"])

    def numbers(self, subject: str, version: int) -> dict[str, int]:
        """Return the ids that Apicurio has for a version: ``globalId`` and ``contentId``."""
        path = f"/apis/registry/v3/groups/default/artifacts/{subject}/versions/{version}"
        with urllib.request.urlopen(self.server + path, timeout=60) as answer:
            facts: dict[str, int] = json.load(answer)
        return facts

    def close(self) -> None:
        """End it and delete its folder."""
        self._process.stop(signal.SIGKILL)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _serves(self) -> bool:
        try:
            self._call("/subjects")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _call(self, path: str, content: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            data=None if content is None else json.dumps(content).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@pytest.fixture(scope="session")
def apicurio() -> Iterator[Apicurio]:
    """The registry, one for the session; take subjects of your own."""
    registry = Apicurio()
    try:
        yield registry
    finally:
        registry.close()
