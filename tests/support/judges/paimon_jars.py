"""Declares the sets of jars that Paimon's Java API needs."""

from __future__ import annotations

from pathlib import Path

from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate
from stream_app.app.launch.jars import JarCache, jar_folder

PAIMON_VERSION = "1.4.2"
PAIMON_SET = JarSet(
    name=f"paimon-{PAIMON_VERSION}",
    coordinates=(MavenCoordinate("org.apache.paimon", "paimon-bundle", PAIMON_VERSION),),
)
S3_SET = JarSet(
    name=f"paimon-s3-{PAIMON_VERSION}",
    coordinates=(MavenCoordinate("org.apache.paimon", "paimon-s3", PAIMON_VERSION),),
    names_every_jar=True,
)
DRIVERS_SET = JarSet(
    name="jdbc-drivers",
    coordinates=(
        MavenCoordinate("org.xerial", "sqlite-jdbc", "3.46.1.3"),
        MavenCoordinate("org.postgresql", "postgresql", "42.7.4"),
        MavenCoordinate("org.mariadb.jdbc", "mariadb-java-client", "3.4.1"),
    ),
    names_every_jar=True,
)
REST_SERVER_SET = JarSet(
    name=f"paimon-rest-server-{PAIMON_VERSION}",
    coordinates=(
        MavenCoordinate("org.apache.paimon", "paimon-core", PAIMON_VERSION, classifier="tests"),
        MavenCoordinate("com.squareup.okhttp3", "mockwebserver", "4.12.0"),
        MavenCoordinate("com.squareup.okhttp3", "okhttp", "4.12.0"),
        MavenCoordinate("com.squareup.okio", "okio-jvm", "3.6.0"),
        MavenCoordinate("org.jetbrains.kotlin", "kotlin-stdlib", "1.8.21"),
        MavenCoordinate("junit", "junit", "4.13.2"),
    ),
    names_every_jar=True,
)


def rest_server_jars() -> list[Path]:
    """Paimon's test server of the REST catalog, and the web server that it stands on."""
    return JarCache(jar_folder()).resolve(REST_SERVER_SET)


def database_drivers() -> list[Path]:
    """Return the drivers of the databases of JDBC catalogs, fetched once."""
    return JarCache(jar_folder()).resolve(DRIVERS_SET)


def paimon_s3_jars() -> list[Path]:
    """Paimon's file system of S3, 96 MB."""
    return JarCache(jar_folder()).resolve(S3_SET)


def paimon_jars() -> list[Path]:
    """Return the library's jar, fetched once."""
    return JarCache(jar_folder()).resolve(PAIMON_SET)
