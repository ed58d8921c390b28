"""Kafka Connect with Debezium's connectors for PostgreSQL and MariaDB: one JVM on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stream_app.app.launch.java import find_java, unicode_environment
from tests.support.jobs.ingest_process import a_free_port
from tests.testbed.servers.archives import connect_jars
from tests.testbed.servers.server_process import ServerProcess

_JVM_FLAGS = (
    "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
)  # fmt: skip
_SECONDS_MAX = 120.0


class Connect:
    """A standalone worker; connectors are added and deleted by its REST interface."""

    def __init__(self, bootstrap: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stream_app-connect-"))
        self._bootstrap = bootstrap
        self.url = f"http://127.0.0.1:{a_free_port()}"
        settings = {
            "bootstrap.servers": bootstrap,
            "listeners": self.url,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": str(self.folder / "offsets"),
            "offset.flush.interval.ms": "200",
            "plugin.discovery": "service_load",
        }
        properties = self.folder / "worker.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        class_path = os.pathsep.join(map(str, connect_jars()))
        self._process = ServerProcess(
            [
                str(find_java()), *_JVM_FLAGS, "-cp", class_path,
                "org.apache.kafka.connect.cli.ConnectStandalone", str(properties),
            ],
            self.folder / "connect.log",
            cwd=self.folder,
            env=unicode_environment(os.environ),
        )  # fmt: skip
        try:
            self._process.wait_until(self._serves)
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def add(self, name: str, config: Mapping[str, str]) -> None:
        """Start a connector, and wait until its task runs."""
        usual = {
            "tasks.max": "1",
            "topic.prefix": name,
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            # Otherwise a null becomes the column's default, and nobody sees it in the topic.
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.replace.null.with.default": "false",
            "skipped.operations": "none",
        }
        self._call("PUT", f"/connectors/{name}/config", {**usual, **config})
        self.wait_until(lambda: self._states(name) == ["RUNNING"], f"{name} to run", name)

    def delete(self, name: str) -> None:
        """End a connector, if it was added."""
        if name in self._call("GET", "/connectors"):
            self._call("DELETE", f"/connectors/{name}")

    def offset(self, name: str) -> dict[str, Any] | None:
        """Up to where all of a connector's messages are in Kafka, in the terms of its source."""
        offsets = self._call("GET", f"/connectors/{name}/offsets")["offsets"]
        return offsets[0]["offset"] if offsets else None

    def wait_until(self, condition: Callable[[], bool], goal: str, name: str) -> None:
        """Wait, as long as no task of the connector has failed."""
        deadline = time.monotonic() + _SECONDS_MAX
        while not condition():
            status = self._status(name)
            failed_traces = [task["trace"] for task in status["tasks"] if task["state"] == "FAILED"]
            assert not failed_traces, failed_traces[0]
            if time.monotonic() > deadline:
                raise AssertionError(f"waited for {goal}: {status}\n{self._process.log()}")
            time.sleep(0.1)

    def close(self) -> None:
        """End it and delete its folder; what it would tidy up takes long and goes with the test."""
        self._process.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _states(self, name: str) -> list[str]:
        return [task["state"] for task in self._status(name)["tasks"]]

    def _status(self, name: str) -> Any:
        try:
            return self._call("GET", f"/connectors/{name}/status")
        except urllib.error.HTTPError as error:
            if error.code != 404:  # it is known a little later than it is made
                raise
            return {"tasks": []}

    def _serves(self) -> bool:
        try:
            self._call("GET", "/connectors")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if content is None else json.dumps(content).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None
