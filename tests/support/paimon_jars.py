"""Paimon's Java API."""

from __future__ import annotations

from pathlib import Path

from stream_app.app.launch.jar_sets import Coordinate, JarSet
from stream_app.app.launch.jars import JarCache, jar_folder

PAIMON_VERSION = "1.4.2"
PAIMON_SET = JarSet(
    name=f"paimon-{PAIMON_VERSION}",
    coordinates=(Coordinate("org.apache.paimon", "paimon-bundle", PAIMON_VERSION),),
)
DRIVERS_SET = JarSet(
    name="jdbc-drivers",
    coordinates=(
        Coordinate("org.xerial", "sqlite-jdbc", "3.46.1.3"),
        Coordinate("org.postgresql", "postgresql", "42.7.4"),
        Coordinate("org.mariadb.jdbc", "mariadb-java-client", "3.4.1"),
    ),
    complete=True,
)


def database_drivers() -> list[Path]:
    """The drivers of the databases of JDBC catalogs, fetched once."""
    return JarCache(jar_folder()).resolve(DRIVERS_SET)


def paimon_jars() -> list[Path]:
    """The library's jar, fetched once."""
    return JarCache(jar_folder()).resolve(PAIMON_SET)
