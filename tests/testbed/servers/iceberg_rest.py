"""An Iceberg REST catalog as a process on loopback: Iceberg's own server of its test fixtures.

It keeps its tables in SQLite, and their metadata on the local disk or on S3. Classes of Hadoop,
Avro and Jackson are PySpark's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate
from stream_app.app.launch.jars import JarCache, jar_folder, spark_home
from stream_app.app.launch.java import find_java
from tests.testbed.servers.server_process import DatabaseServer, ServerProcess

_VERSION = "1.10.0"
_ICEBERG, _JETTY = "org.apache.iceberg", "11.0.26"
_JETTY_MODULES = ("http", "io", "security", "server", "servlet", "util")
_JARS = JarSet(
    name=f"iceberg-rest-{_VERSION}",
    coordinates=(
        *(
            MavenCoordinate(_ICEBERG, f"iceberg-{module}", _VERSION)
            for module in ("api", "bundled-guava", "common", "core")
        ),
        MavenCoordinate(_ICEBERG, "iceberg-open-api", _VERSION, classifier="test-fixtures"),
        MavenCoordinate("com.github.ben-manes.caffeine", "caffeine", "2.9.3"),
        MavenCoordinate("org.apache.httpcomponents.client5", "httpclient5", "5.5"),
        MavenCoordinate("org.apache.httpcomponents.core5", "httpcore5", "5.3.4"),
        MavenCoordinate("org.apache.httpcomponents.core5", "httpcore5-h2", "5.3.4"),
        *(
            MavenCoordinate("org.eclipse.jetty", f"jetty-{module}", _JETTY)
            for module in _JETTY_MODULES
        ),
        MavenCoordinate("org.eclipse.jetty.toolchain", "jetty-jakarta-servlet-api", "5.0.2"),
        MavenCoordinate("org.xerial", "sqlite-jdbc", "3.50.3.0"),
    ),
    names_every_jar=True,
)  # fmt: skip
_ADAPTER = JarSet(  # apart: a set has one archive of a module
    name=f"iceberg-core-tests-{_VERSION}",
    coordinates=(MavenCoordinate(_ICEBERG, "iceberg-core", _VERSION, classifier="tests"),),
    names_every_jar=True,
)
_S3 = JarSet(
    name=f"iceberg-aws-{_VERSION}",
    coordinates=(
        MavenCoordinate(_ICEBERG, "iceberg-aws", _VERSION),
        MavenCoordinate(_ICEBERG, "iceberg-aws-bundle", _VERSION),
        MavenCoordinate("dev.failsafe", "failsafe", "3.3.2"),
    ),
    names_every_jar=True,
)
_OF_SPARK = (
    "RoaringBitmap", "aircompressor", "avro-1.", "commons-", "hadoop-client-", "jackson-",
    "slf4j-api",
)  # fmt: skip


class IcebergRest(DatabaseServer):
    """Serves from the moment it is made until `close`.

    Args:
        s3: Iceberg's settings of a store, such as ``s3.endpoint``, if tables lie there.
    """

    def __init__(self, s3: Mapping[str, str] | None = None) -> None:
        self._s3 = s3
        super().__init__("iceberg-rest")

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _started(self) -> ServerProcess:
        cache = JarCache(jar_folder())
        jars = [
            *cache.resolve(_JARS),
            *cache.resolve(_ADAPTER),
            *(cache.resolve(_S3) if self._s3 else ()),
            *(jar for name in _OF_SPARK for jar in (spark_home() / "jars").glob(f"{name}*.jar")),
        ]
        settings = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_WAREHOUSE": f"{self.folder}/warehouse",
            "CATALOG_URI": f"jdbc:sqlite:{self.folder}/catalog.db",
        }
        if self._s3:
            store = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **self._s3}
            settings |= {_variable(name): value for name, value in store.items()}
        return ServerProcess(
            [
                str(find_java()), "-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-cp", ":".join(map(str, jars)), "org.apache.iceberg.rest.RESTCatalogServer",
            ],
            self.folder / "server.log", cwd=self.folder, env={**os.environ, **settings},
        )  # fmt: skip


def _variable(name: str) -> str:
    """The variable by which the server gets a property."""
    return f"CATALOG_{name.replace('-', '__').replace('.', '_').upper()}"
