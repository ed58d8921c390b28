"""A PostgreSQL with logical decoding, as a process on loopback."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from typing import Any

import psycopg

from tests.testbed.servers.archives import unpack_postgres
from tests.testbed.servers.server_process import DatabaseServer, ServerProcess

USER = "postgres"
_SETTINGS = {
    "max_connections": "2000",  # Paimon leaves those of its locks open
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


class Postgres(DatabaseServer):
    """Serves from the moment it is made until `close`.

    Its folder lies in the system's temporary folder: initdb refuses root, so as root the server
    runs as `nobody`, which cannot reach the folders of others.
    """

    stops_by = signal.SIGINT  # a fast shutdown, which does not wait for clients

    def __init__(self) -> None:
        super().__init__("postgres")

    def connect(self, database: str = USER) -> psycopg.Connection[tuple[Any, ...]]:
        """A connection that commits each statement by itself."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True
        )

    def _started(self) -> ServerProcess:
        owner = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        unpack_postgres(self.folder / "server")
        if owner is not None:
            self.folder.chmod(0o755)
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, owner, owner, follow_symlinks=False)
        binaries, data = self.folder / "server" / "bin", self.folder / "data"
        result = subprocess.run(
            [str(binaries / "initdb"), "-D", str(data), "-U", USER, "-A", "trust",
             "-E", "UTF8", "--locale=C", "--no-sync"],
            cwd=self.folder, user=owner, group=owner, check=False,
            extra_groups=None if owner is None else [],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout.decode(errors="replace")
        settings = [word for pair in _SETTINGS.items() for word in ("-c", "=".join(pair))]
        return ServerProcess(
            [str(binaries / "postgres"), "-D", str(data), "-p", str(self.port), *settings],
            self.folder / "postgres.log",
            cwd=self.folder,
            owner=owner,
        )

    def _serves(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True
