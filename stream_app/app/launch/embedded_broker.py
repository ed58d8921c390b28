"""Runs one real Kafka broker (KRaft, one JVM) on loopback, for the demo and the tests.

`server.properties` beside this module has the settings, to which the code adds addresses and the
folder. The broker is not for production: it has one node, one replica and no security. `stream-app
broker FOLDER [PORT]` runs it until Ctrl-C.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType

from stream_app.app.launch.jars import kafka_broker_jars
from stream_app.app.launch.java import checked_java, unicode_environment
from stream_app.errors import SourceError

LOOPBACK = "127.0.0.1"
_TEMPLATE = Path(__file__).with_name("server.properties")
STARTED_LINE = "Kafka Server started"
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 30.0
_SHOWN_LINES_MAX = 12
_JVM_FLAGS = (
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",  # starts sooner; the demo does not run long enough for more
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    # An INFO of this class reports that the broker serves.
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)


class EmbeddedBroker:
    """A broker whose data, settings, log and process id are in one folder.

    After `stop` or `kill`, `start` continues with the same data at the same port. As a context
    manager the broker starts on entering and stops on leaving.

    Args:
        folder: the broker's folder, created if missing.
        port: the port of the broker; 0 chooses a free port.
        settings: additional lines of server.properties.
        listeners: name → port of additional listeners, which `settings` describe.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, int] | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self._port = port
        self._controller_port = 0
        self._settings = dict(settings or {})
        self._listeners = dict(listeners or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """``host:port`` for clients, which is known after the first start."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def pid(self) -> int | None:
        """The process id of the running broker, or None."""
        return self._process.pid if self._process else None

    @property
    def log_file(self) -> Path:
        """The file with the broker's output."""
        return self.folder / "broker.log"

    def start(self) -> EmbeddedBroker:
        """Start the broker, and wait until it accepts requests.

        Raises:
            SourceError: the broker ended, or was not ready in time; the error has the end of its
                log.
            UsageError: Java is missing or too old.
        """
        assert self._process is None, "the broker runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        class_path = os.pathsep.join(map(str, kafka_broker_jars()))
        java = [str(checked_java()), *_JVM_FLAGS, "-cp", class_path]
        self._choose_ports()
        properties = self._write_properties()
        if not (self.folder / "data" / "meta.properties").exists():
            self._format_storage(java, properties)
        # A separate session: Ctrl-C in the terminal must reach the job first, not the broker.
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", properties.name],
                cwd=self.folder,
                env=unicode_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        (self.folder / "pid").write_text(f"{self._process.pid}\n")
        try:
            self._wait_until_started(self._process)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Stop the broker by SIGTERM, and keep its data.

        A broker that does not run is left alone.
        """
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._await_end()

    def kill(self) -> None:
        """Kill the broker by SIGKILL, like a power cut, and keep its data.

        The next start takes about 10 s, because the controller waits for the old session to expire.
        """
        if self._process is not None:
            self._process.kill()
        self._await_end()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _await_end(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
            (self.folder / "pid").unlink(missing_ok=True)

    def _choose_ports(self) -> None:
        # Both sockets stay open until both ports are known, so that the ports differ.
        with closing(socket.socket()) as broker, closing(socket.socket()) as controller:
            for probe in (broker, controller):
                probe.bind((LOOPBACK, 0))
            self._port = self._port or broker.getsockname()[1]
            self._controller_port = self._controller_port or controller.getsockname()[1]

    def _write_properties(self) -> Path:
        controller = f"{LOOPBACK}:{self._controller_port}"
        ports = self._listeners.items()
        public_listeners = [f"PLAINTEXT://{self.bootstrap}"]
        public_listeners += [f"{name}://{LOOPBACK}:{port}" for name, port in ports]
        properties = {
            "listeners": ",".join([*public_listeners, f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(public_listeners),
            "controller.quorum.voters": f"1@{controller}",
            # A relative path, because the file allows neither commas nor letters beyond Latin-1.
            "log.dirs": "data",
        }
        template = _TEMPLATE.read_text("utf-8")
        lines = [f"{key}={value}" for key, value in (properties | self._settings).items()]
        path = self.folder / "server.properties"
        path.write_text(template + "\n".join(lines) + "\n", encoding="utf-8")
        return path

    def _format_storage(self, java: Sequence[str], properties: Path) -> None:
        """Prepare the broker's folder under a fresh cluster id, unless it is prepared already.

        Raises:
            SourceError: Kafka's tool has failed.
        """
        # The first bit is 0, so the text never begins with a hyphen, which would mean an option.
        first_byte, *other_bytes = os.urandom(16)
        random_bytes = bytes([first_byte & 0x7F, *other_bytes])
        cluster_id = base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")
        command = [*java, "kafka.tools.StorageTool", "format"]
        process = subprocess.run(
            [*command, "--ignore-formatted", "-t", cluster_id, "-c", properties.name],
            cwd=self.folder,
            env=unicode_environment(os.environ),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        if process.returncode:
            raise SourceError(
                "the embedded Kafka broker's folder could not be formatted",
                where=f"{self.folder}:\n{_last_lines(process.stdout)}",
                fix="use an empty folder on a disk with free space",
            )

    def _wait_until_started(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            if STARTED_LINE in self.log_file.read_text(encoding="utf-8", errors="replace"):
                return
            time.sleep(0.05)
        code = process.poll()
        self.kill()
        log_tail = _last_lines(self.log_file.read_text(encoding="utf-8", errors="replace"))
        raise SourceError(
            f"the embedded Kafka broker did not start within {START_TIMEOUT_S:.0f} s"
            if code is None
            else f"the embedded Kafka broker ended at its start (exit code {code})",
            where=f"{self.log_file}:\n{log_tail}",
            fix=f"check that port {self._port} is free and that no other broker uses the folder",
        )


def _last_lines(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-_SHOWN_LINES_MAX:])
