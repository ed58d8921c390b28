"""A Hive metastore as a process on loopback, with Derby as its database.

Hive's own archives bring the server and the tool that makes the database's schema. Hadoop's classes
are PySpark's.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate
from stream_app.app.launch.jars import JarCache, jar_folder, spark_home
from stream_app.app.launch.java import find_java
from stream_app.catalog.hive.hive_site import addresses
from stream_app.catalog.hive.metastore_client import MetastoreClient, MetastoreMethod
from stream_app.catalog.hive.thrift_struct import flag, text
from tests.testbed.servers.archives import unpack_tar
from tests.testbed.servers.server_process import DatabaseServer, ServerProcess

_SETTINGS = {
    "metastore.async.log.enabled": "false",
    "metastore.expression.proxy": (
        "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy"
    ),
    # The other tasks need Hive's own engine.
    "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.txn.AcidHouseKeeperService",
    "metastore.task.threads.remote": "",
    "metastore.thrift.bind.host": "127.0.0.1",
}
_JVM_OPTIONS = (
    "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dderby.system.durability=test",
    "--add-opens=java.base/java.net=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED",
)  # fmt: skip
_ARCHIVES = {"3.1.3": "hive-standalone-metastore", "4.0.1": "hive-standalone-metastore-server"}
_SCHEMA_TOOLS = {
    "3.1.3": "org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool",
    "4.0.1": "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool",
}
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "commons-cli", "commons-io")
_OF_BOTH = JarSet(
    name="hive-metastore",
    coordinates=(
        MavenCoordinate("com.google.code.gson", "gson", "2.10.1"),
        MavenCoordinate("commons-collections", "commons-collections", "3.2.2"),
        MavenCoordinate("commons-lang", "commons-lang", "2.6"),
        MavenCoordinate("commons-logging", "commons-logging", "1.2"),
        MavenCoordinate("javax.servlet", "javax.servlet-api", "3.1.0"),
        MavenCoordinate("org.apache.hadoop", "hadoop-hdfs", "3.4.2"),
        MavenCoordinate("org.apache.httpcomponents", "httpclient", "4.5.14"),
        MavenCoordinate("org.slf4j", "slf4j-api", "1.7.36"),
    ),
    names_every_jar=True,
)


def _archive_set(version: str) -> JarSet:
    archive = MavenCoordinate(
        "org.apache.hive", _ARCHIVES[version], version, classifier="bin", extension="tar.gz"
    )
    return JarSet(name=f"hive-metastore-{version}", coordinates=(archive,), names_every_jar=True)


class HiveMetastore(DatabaseServer):
    """Serves from the moment it is made until `close`."""

    def __init__(self, version: str) -> None:
        self.version = version
        super().__init__(f"hive-{version}")

    @property
    def uri(self) -> str:
        return f"thrift://127.0.0.1:{self.port}"

    def client(self) -> MetastoreClient:
        return MetastoreClient(addresses(self.uri), 1, 60_000)

    @property
    def client_jars(self) -> list[Path]:
        """The client of Hive 4; none for Hive 3, which Spark's own client knows."""
        return sorted(self.folder.glob("home/*/lib/hive-standalone-metastore-common-*.jar"))

    def catalog_options(self, warehouse: Path) -> dict[str, str]:
        """Options of a catalog with locks, for us and for Paimon's Java."""
        return {
            "metastore": "hive",
            "uri": self.uri,
            "warehouse": str(warehouse),
            "lock.enabled": "true",
        }

    def drop_databases(self) -> None:
        """Drop all databases but the one that is always there."""
        client = self.client()
        for name in client.call(MetastoreMethod("get_all_databases")).texts(0):
            if name != "default":
                client.call(MetastoreMethod("drop_database"), text(name), flag(False), flag(True))

    def _started(self) -> ServerProcess:
        (archive,) = JarCache(jar_folder()).resolve(_archive_set(self.version))
        home = self.folder / "home"
        with tarfile.open(archive) as tar:
            unpack_tar(tar, home)
        (home,) = home.iterdir()
        configuration = self.folder / "conf"
        configuration.mkdir()
        (configuration / "metastore-site.xml").write_text(self._site(), encoding="utf-8")
        class_path = ":".join([str(configuration), f"{home}/lib/*", *map(str, _jars())])
        command = [
            str(find_java()), *_JVM_OPTIONS, f"-Dderby.stream.error.file={self.folder}/derby.log",
            "-cp", class_path,
        ]  # fmt: skip
        environment = {
            **os.environ, "METASTORE_HOME": str(home), "METASTORE_CONF_DIR": str(configuration),
        }  # fmt: skip
        result = subprocess.run(
            [*command, _SCHEMA_TOOLS[self.version], "-initSchema", "-dbType", "derby"],
            cwd=self.folder, env=environment, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert result.returncode == 0, result.stdout.decode(errors="replace")[-4000:]
        return ServerProcess(
            [*command, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)],
            self.folder / "metastore.log",
            cwd=self.folder,
            env=environment,
        )

    def _site(self) -> str:
        settings = {
            **_SETTINGS,
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:{self.folder}/derby;create=true",
            "metastore.warehouse.dir": f"{self.folder}/warehouse",
            "metastore.warehouse.external.dir": f"{self.folder}/warehouse",
        }
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>\n"
            for name, value in settings.items()
        )
        return f"<configuration>\n{properties}</configuration>\n"


def _jars() -> list[Path]:
    folder = spark_home() / "jars"
    of_spark = [jar for name in _OF_SPARK for jar in folder.glob(f"{name}-[0-9]*.jar")]
    return [*of_spark, *JarCache(jar_folder()).resolve(_OF_BOTH)]
