"""An Iceberg REST catalog as a process on loopback: Iceberg's own server of its test fixtures.

It keeps its tables in SQLite. Classes of Hadoop, Avro and Jackson are PySpark's.
"""

from __future__ import annotations

import os

from stream_app.app.launch.jar_sets import Coordinate, JarSet
from stream_app.app.launch.jars import JarCache, jar_folder, spark_home
from stream_app.app.launch.java import find_java
from tests.testbed.server_process import DatabaseServer, ServerProcess

_VERSION = "1.10.0"
_ICEBERG, _JETTY = "org.apache.iceberg", "11.0.26"
_JETTY_MODULES = ("http", "io", "security", "server", "servlet", "util")
_JARS = JarSet(
    name=f"iceberg-rest-{_VERSION}",
    coordinates=(
        *(
            Coordinate(_ICEBERG, f"iceberg-{module}", _VERSION)
            for module in ("api", "bundled-guava", "common", "core")
        ),
        Coordinate(_ICEBERG, "iceberg-open-api", _VERSION, classifier="test-fixtures"),
        Coordinate("com.github.ben-manes.caffeine", "caffeine", "2.9.3"),
        Coordinate("org.apache.httpcomponents.client5", "httpclient5", "5.5"),
        Coordinate("org.apache.httpcomponents.core5", "httpcore5", "5.3.4"),
        Coordinate("org.apache.httpcomponents.core5", "httpcore5-h2", "5.3.4"),
        *(
            Coordinate("org.eclipse.jetty", f"jetty-{module}", _JETTY)
            for module in _JETTY_MODULES
        ),
        Coordinate("org.eclipse.jetty.toolchain", "jetty-jakarta-servlet-api", "5.0.2"),
        Coordinate("org.xerial", "sqlite-jdbc", "3.50.3.0"),
    ),
    complete=True,
)  # fmt: skip
_ADAPTER = JarSet(  # apart: a set has one archive of a module
    name=f"iceberg-core-tests-{_VERSION}",
    coordinates=(Coordinate(_ICEBERG, "iceberg-core", _VERSION, classifier="tests"),),
    complete=True,
)
_OF_SPARK = (
    "RoaringBitmap", "aircompressor", "avro-1.", "commons-", "hadoop-client-", "jackson-",
    "slf4j-api",
)  # fmt: skip


class IcebergRest(DatabaseServer):
    """Serves from the moment it is made until `close`."""

    def __init__(self) -> None:
        super().__init__("iceberg-rest")

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _started(self) -> ServerProcess:
        cache = JarCache(jar_folder())
        jars = [
            *cache.resolve(_JARS),
            *cache.resolve(_ADAPTER),
            *(jar for name in _OF_SPARK for jar in (spark_home() / "jars").glob(f"{name}*.jar")),
        ]
        settings = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_WAREHOUSE": f"{self.folder}/warehouse",
            "CATALOG_URI": f"jdbc:sqlite:{self.folder}/catalog.db",
        }
        return ServerProcess(
            [
                str(find_java()), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-cp", ":".join(map(str, jars)), "org.apache.iceberg.rest.RESTCatalogServer",
            ],
            self.folder / "server.log", cwd=self.folder, env={**os.environ, **settings},
        )  # fmt: skip
