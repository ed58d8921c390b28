"""A MariaDB with a binlog of whole rows, as a process on loopback."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pymysql

from tests.testbed.servers.archives import mariadb_home
from tests.testbed.servers.server_process import DatabaseServer, ServerProcess

USER = PASSWORD = "debezium"
_SYSTEM_TABLES = ("mariadb_system_tables.sql", "mariadb_system_tables_data.sql")


class MariaDb(DatabaseServer):
    """Serves from the moment it is made until `close`."""

    def __init__(self) -> None:
        super().__init__("mariadb")

    def connect(self, database: str | None = None) -> pymysql.Connection[Any]:
        """A connection in UTC that commits each statement by itself."""
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, database=database,
            charset="utf8mb4", autocommit=True, init_command="set time_zone = '+00:00'",
        )  # fmt: skip

    def _started(self) -> ServerProcess:
        home, data = mariadb_home(), self.folder / "data"
        (data / "mysql").mkdir(parents=True)
        server = [
            str(home / "bin" / "mariadbd"), "--no-defaults", f"--datadir={data}",
            f"--lc-messages-dir={home / 'share'}", f"--character-sets-dir={home}/share/charsets",
            "--character-set-server=utf8mb4", "--default-time-zone=+00:00",
            "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--debug-no-sync",
            "--skip-ssl",  # a certificate of its own would take it many seconds
        ]  # fmt: skip
        if os.geteuid() == 0:  # it refuses root only as long as root is not asked for
            server.append(f"--user={pwd.getpwuid(0).pw_name}")
        self._make_system_tables(server, home / "share")
        users = self.folder / "users.sql"
        users.write_text(
            f"create user {USER}@'%' identified by '{PASSWORD}';\n"
            f"grant all on *.* to {USER}@'%' with grant option;\n"
        )
        return ServerProcess(
            [
                *server, f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve",
                f"--socket={self.folder / 'socket'}", "--server-id=1", "--log-bin=binlog",
                "--max-connections=2000",  # Paimon leaves those of its locks open
                "--binlog-format=ROW", "--binlog-row-image=FULL", f"--init-file={users}",
            ],
            self.folder / "mariadb.log",
            cwd=self.folder,
        )  # fmt: skip

    def _make_system_tables(self, server: list[str], share: Path) -> None:
        script = "use mysql;\n" + "\n".join((share / name).read_text() for name in _SYSTEM_TABLES)
        result = subprocess.run(
            [*server, "--bootstrap", "--skip-log-bin"],
            cwd=self.folder, input=script.encode(), check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout.decode(errors="replace")

    def _serves(self) -> bool:
        try:
            self.connect().close()
        except pymysql.err.OperationalError:
            return False
        return True
