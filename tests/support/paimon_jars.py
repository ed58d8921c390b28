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


def paimon_jars() -> list[Path]:
    """The library's jar, fetched once."""
    return JarCache(jar_folder()).resolve(PAIMON_SET)
