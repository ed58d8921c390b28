"""A PostgreSQL with logical decoding, as a process on loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from tests.support.ingest_process import a_free_port
from tests.testbed.archives import unpack_postgres
from tests.testbed.server_process import ServerProcess

USER = "postgres"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "timezone": "UTC",
    "fsync": "off",
    "synchronous_commit": "off",
    "shared_buffers": "32MB",
}


class Postgres:
    """Serves from the moment it is made until `close`.

    Its folder lies in the system's temporary folder: initdb refuses root, so as root the server
    runs as `nobody`, which cannot reach the folders of others.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stream_app-postgres-"))
        self.port = a_free_port()
        self._process: ServerProcess | None = None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def connect(self, database: str = USER) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection that commits each statement by itself."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True
        )

    def close(self) -> None:
        """End it and delete its folder."""
        if self._process is not None:
            self._process.stop(signal.SIGINT)  # a fast shutdown, which does not wait for clients
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        unpack_postgres(self.folder / "server")
        if owner is not None:
            self.folder.chmod(0o755)
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, owner, owner, follow_symlinks=False)
        binaries, data = self.folder / "server" / "bin", self.folder / "data"
        made = subprocess.run(
            [str(binaries / "initdb"), "-D", str(data), "-U", USER, "-A", "trust",
             "-E", "UTF8", "--locale=C", "--no-sync"],
            cwd=self.folder, user=owner, group=owner, check=False,
            extra_groups=None if owner is None else [],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout.decode(errors="replace")
        settings = [word for pair in _SETTINGS.items() for word in ("-c", "=".join(pair))]
        self._process = ServerProcess(
            [str(binaries / "postgres"), "-D", str(data), "-p", str(self.port), *settings],
            self.folder / "postgres.log",
            cwd=self.folder,
            owner=owner,
        )
        self._process.wait_until(self._serves)

    def _serves(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True
