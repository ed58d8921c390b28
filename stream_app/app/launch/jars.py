"""Finds the Java archives that Spark needs. They are resolved once and cached in a folder.

No Maven is needed, because PySpark ships Apache Ivy. Ivy uses its default repository but not the
user's Maven cache, where a POM without its jar would make Ivy fail. The verbs that start Spark, the
demo's broker and the tests call this module. ``python -m stream_app.app.launch.jars SET`` prints a
set.

A set is a folder ``<name>-<version>/`` with the jars and ``jars.txt``, which lists them. The folder
is created by an atomic rename. Jars that a user has put there are used without a check.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from stream_app.app.launch.jar_sets import (
    HADOOP_SETS,
    KAFKA_BROKER_SET,
    JarSet,
    MavenCoordinate,
    spark_kafka_set,
)
from stream_app.app.launch.java import find_java, unicode_environment
from stream_app.errors import StreamAppError, UsageError

MANIFEST = "jars.txt"
RESOLVE_TIMEOUT_S = 900
_SHOWN_LINES_MAX = 15
_SOURCE_TREE = Path(__file__).resolve().parents[3]
# `ibiblio` without a root means the central repository, whose address Ivy knows by itself.
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="POMS"/></resolvers>
</ivysettings>
"""


def spark_kafka_jars(spark_version: str) -> list[Path]:
    """Return the jars of Spark's Kafka source, for ``spark.jars``."""
    return JarCache(jar_folder()).resolve(spark_kafka_set(spark_version))


def kafka_broker_jars() -> list[Path]:
    """Return the class path of a Kafka broker."""
    return JarCache(jar_folder()).resolve(KAFKA_BROKER_SET)


def jars_of_store(name: str) -> list[Path]:
    """Return the jars with which Spark accesses a store; empty if Spark has them already.

    Args:
        name: the name of the set (`SparkAccess.jars`), or empty if the store needs none.

    Raises:
        StreamAppError: Spark's jars do not show Hadoop's version.
    """
    if not name:
        return []
    jars = spark_home() / "jars"
    matches = [re.fullmatch(r"hadoop-client-api-([\d.]+)\.jar", jar.name) for jar in jars.iterdir()]
    versions = [match[1] for match in matches if match]
    if len(versions) != 1:
        raise StreamAppError(
            "Spark brings no jar hadoop-client-api-*.jar, whose version a store's jars must have",
            where=str(jars),
            fix=f"give the jars of Hadoop for {name}:// in spark.jars, with what they need",
        )
    jar_set = HADOOP_SETS[name](versions[0])
    if any(jars.glob(f"{jar_set.coordinates[0].module}-*.jar")):
        return []
    return JarCache(jar_folder()).resolve(jar_set)


def jar_folder(source_tree: Path = _SOURCE_TREE) -> Path:
    """Return ``$STREAM_APP_JARS``, or the source tree's ``.jars``, or the user's cache folder."""
    configured_folder = os.environ.get("STREAM_APP_JARS")
    if configured_folder:
        return Path(configured_folder).absolute()
    if (source_tree / "pyproject.toml").is_file():
        return source_tree / ".jars"
    cache_home = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache_home) if cache_home else Path.home() / ".cache") / "stream_app" / "jars"


@dataclass(frozen=True, slots=True)
class JarCache:
    """The folder of resolved sets. A file lock makes it safe against concurrent processes."""

    folder: Path

    def resolve(self, jar_set: JarSet) -> list[Path]:
        """Return the jars of a set, from the folder or, through Ivy, from the registry.

        Raises:
            StreamAppError: the registry lacks a module or cannot be reached.
        """
        cached_jars = self.find(jar_set)
        if cached_jars:
            return cached_jars
        with self._lock():
            return self.find(jar_set) or self._fetch(jar_set)

    def find(self, jar_set: JarSet) -> list[Path]:
        """Return the jars of a set if its folder is complete; else an empty list."""
        folder = self.folder / jar_set.name
        manifest = folder / MANIFEST
        if manifest.is_file():
            jars = [folder / name for name in manifest.read_text(encoding="utf-8").split("\n")[:-1]]
            return jars if all(jar.is_file() for jar in jars) else []
        manual_jars = _jars_in(folder)
        jar_names = {coordinate.jar_name for coordinate in jar_set.coordinates}
        return manual_jars if jar_names <= {jar.name for jar in manual_jars} else []

    def _fetch(self, jar_set: JarSet) -> list[Path]:
        _print(f"fetching the jars of {jar_set.name}, which may take minutes")
        with tempfile.TemporaryDirectory(prefix=".resolving-", dir=self.folder) as scratch:
            staging = _resolve(jar_set, Path(scratch), self.folder / jar_set.name)
            names = [jar.name for jar in _jars_in(staging)]
            (staging / MANIFEST).write_text(
                "".join(f"{name}\n" for name in names), encoding="utf-8"
            )
            target_folder = self.folder / jar_set.name
            shutil.rmtree(target_folder, ignore_errors=True)  # the folder is incomplete
            staging.rename(target_folder)
        jars = self.find(jar_set)
        size = sum(jar.stat().st_size for jar in jars)
        _print(f"{len(jars)} jars, {size / 1e6:.1f} MB in {target_folder}")
        return jars

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _jars_in(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(file for file in files if file.suffix in (".jar", ".zip", ".gz"))


def _resolve(jar_set: JarSet, scratch: Path, target_folder: Path) -> Path:
    staging = scratch / "staging"
    coordinates = jar_set.coordinates
    code, output = _run_ivy(jar_set, scratch, staging)
    jar_names = {jar.name for jar in _jars_in(staging)}
    if code == 0 and all(coordinate.jar_name in jar_names for coordinate in coordinates):
        return staging
    jars_text = ", ".join(coordinate.jar_name for coordinate in coordinates)
    if any(coordinate.is_transitive for coordinate in coordinates):
        jars_text += " and what they need"
    raise StreamAppError(
        f"cannot resolve {', '.join(map(str, _missing_modules(coordinates, output)))}",
        where="Apache Ivy said:\n    " + "\n    ".join(_last_lines(output)),
        fix="behind a proxy set https_proxy; to use a mirror write an Ivy settings file and name "
        "it in STREAM_APP_IVY_SETTINGS; without a network put the jars "
        f"({jars_text}) into {target_folder}",
    )


def _missing_modules(
    coordinates: Sequence[MavenCoordinate], output: str
) -> Sequence[MavenCoordinate]:
    """Return the modules that Ivy reports as not found, or all modules if it reports none."""
    missing_coordinates = [
        coordinate
        for coordinate in coordinates
        if f":: {coordinate.organisation}#{coordinate.module};{coordinate.revision}: not found"
        in output
    ]
    return missing_coordinates or coordinates


def _run_ivy(jar_set: JarSet, scratch: Path, staging: Path) -> tuple[int, str]:
    """Let Ivy download a set of JARs into `staging`; a timeout counts as exit code 1."""
    configured_path = os.environ.get("STREAM_APP_IVY_SETTINGS")
    settings = Path(configured_path) if configured_path else scratch / "ivysettings.xml"
    if not configured_path:
        poms = "false" if jar_set.names_every_jar else "true"
        settings.write_text(_IVY_SETTINGS.replace("POMS", poms), encoding="utf-8")
    elif not settings.is_file():
        raise UsageError(
            f"there is no Ivy settings file {configured_path!r}",
            fix="correct or unset STREAM_APP_IVY_SETTINGS",
        )
    module = scratch / "ivy.xml"
    module.write_text(_ivy_module(jar_set), encoding="utf-8")
    command: list[str | Path] = [find_java(), *_proxy_flags(), f"-Duser.home={scratch}"]
    command += [f"-Divy.default.ivy.user.dir={scratch}", "-jar", _ivy_jar()]
    command += ["-settings", settings, "-cache", scratch / "cache", "-ivy", module]
    command += ["-confs", "default", "-retrieve"]
    command += [f"{staging}/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        process = subprocess.run(
            command,
            env=unicode_environment(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RESOLVE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {RESOLVE_TIMEOUT_S} s"
    return process.returncode, process.stdout.decode("utf-8", "replace")


def _print(text: str) -> None:
    print(f"stream_app: {text}", file=sys.stderr, flush=True)


def _ivy_module(jar_set: JarSet) -> str:
    """Return the XML of an Ivy module whose dependencies are a set of JARs."""
    # Without its POM a module has one configuration, whose name is `default`.
    module_conf = "default->default" if jar_set.names_every_jar else "default->master"
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(coordinate.organisation)} "
        f"name={quoteattr(coordinate.module)} rev={quoteattr(coordinate.revision)} "
        + (
            'conf="default->runtime,master"/>'
            if coordinate.is_transitive
            else f'conf="{module_conf}" transitive="false">{_artifact(coordinate)}</dependency>'
        )
        for coordinate in jar_set.coordinates
    )
    exclusions = "\n".join(
        f"    <exclude org={quoteattr(organisation)} module={quoteattr(module)}/>"
        for organisation, module in jar_set.excluded_modules
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        f'  <info organisation="stream_app" module={quoteattr(jar_set.name)}/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n{exclusions}\n  </dependencies>\n"
        "</ivy-module>\n"
    )


def _artifact(coordinate: MavenCoordinate) -> str:
    """Return the XML element of an archive that is not the module's jar; empty for a jar."""
    name, kind = quoteattr(coordinate.module), quoteattr(coordinate.extension)
    if coordinate.classifier:
        classifier = quoteattr(coordinate.classifier)
        return f"<artifact name={name} type={kind} ext={kind} m:classifier={classifier}/>"
    is_jar = coordinate.extension == "jar"
    return "" if is_jar else f"<artifact name={name} type={kind} ext={kind}/>"


def _ivy_jar() -> Path:
    jars = list((_pyspark_folder() / "jars").glob("ivy-*.jar"))
    if not jars:
        raise UsageError(
            "PySpark lacks jars/ivy-*.jar, the library that resolves the other jars",
            fix="install pyspark in this environment (./run.sh setup)",
        )
    return jars[0]


def spark_home() -> Path:
    """Return the folder of the Spark that runs jobs: ``$SPARK_HOME``, or PySpark's."""
    home = os.environ.get("SPARK_HOME")
    return Path(home) if home else _pyspark_folder()


def _pyspark_folder() -> Path:
    spec = find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders or ()), "."))


def _proxy_flags() -> list[str]:
    """Return the environment's proxies as flags of Java, which does not read the environment."""
    flags = []
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        url = urlsplit(os.environ.get(name) or os.environ.get(name.upper()) or "")
        if url.hostname:
            flags += [f"-D{scheme}.proxyHost={url.hostname}"]
            flags += [f"-D{scheme}.proxyPort={url.port or (443 if scheme == 'https' else 80)}"]
    return flags


def _last_lines(output: str) -> list[str]:
    """Return the last informative lines of Ivy's output."""
    lines = [line.strip() for line in output.splitlines() if re.search(r"\w", line)]
    lines = [line for line in lines if not line.startswith("|") and "USE VERBOSE" not in line]
    return lines[-_SHOWN_LINES_MAX:]


def installed_spark_version() -> str:
    """Return the version of this environment's PySpark.

    Raises:
        UsageError: PySpark is not installed.
    """
    try:
        return version("pyspark")
    except PackageNotFoundError:
        raise UsageError("pyspark is not installed", fix="run ./run.sh setup") from None


def main(arguments: Sequence[str]) -> int:
    """Print the jars of the named sets, one path a line."""
    jar_sets: dict[str, Callable[[], list[Path]]] = {
        "spark-kafka": lambda: spark_kafka_jars(installed_spark_version()),
        **{name: partial(jars_of_store, name) for name in HADOOP_SETS},
        "kafka-broker": kafka_broker_jars,
    }
    if not arguments or not set(arguments) <= jar_sets.keys():
        print(
            f"usage: python -m stream_app.app.launch.jars {{{'|'.join(jar_sets)}}} …",
            file=sys.stderr,
        )
        return 2
    try:
        for name in arguments:
            print("\n".join(map(str, jar_sets[name]())))
    except StreamAppError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
