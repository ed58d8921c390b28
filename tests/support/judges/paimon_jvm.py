"""Starts a JVM with Paimon's library, and compiles small programs for it."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
CLASSES = REPO / ".jars" / "paimon-java"
# What paimon-bundle leaves out, from PySpark's own jars.
SPARK_JARS = (
    "hadoop-client-*", "lz4-java-*", "rocksdbjni-*", "slf4j-api-*", "snappy-java-*",
    # The client of a Hive metastore.
    "commons-lang-2*", "commons-lang3-*", "guava-*", "hive-*", "jcl-over-slf4j-*", "libfb303-*",
    "libthrift-*",
)  # fmt: skip
JVM_OPTIONS = (
    "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
    "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8",
)  # fmt: skip


def java_tool(name: str) -> str:
    """Return the path of java or javac: from JAVA_HOME, else from PATH."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(name, path=f"{home}/bin") if home else None
    path = path or shutil.which(name)
    if path is None:
        raise RuntimeError(
            f"the tests with Paimon's Java reader need a JDK 17 or later: no '{name}' found\n"
            "  to fix: install one (Debian: apt-get install openjdk-17-jdk-headless; a JRE lacks\n"
            "          javac), or set JAVA_HOME to it"
        )
    return path


def class_path_of_paimon() -> str:
    from tests.support.judges.paimon_jars import database_drivers, paimon_jars

    pyspark = importlib.util.find_spec("pyspark")  # found, not imported: that would take a while
    assert pyspark is not None
    assert pyspark.origin is not None
    spark = Path(pyspark.origin).parent / "jars"
    jars = [jar for name in SPARK_JARS for jar in sorted(spark.glob(f"{name}.jar"))]
    return ":".join(str(jar) for jar in [*paimon_jars(), *database_drivers(), *jars])


def compiled_folder(folder: Path, class_path: str) -> Path:
    """Compile the sources, unless a folder of their hash has them; return this folder."""
    sources = sorted(folder.glob("*.java"))
    digest = hashlib.sha256(class_path.encode())
    for source in sources:
        digest.update(source.read_bytes())
    classes = CLASSES / digest.hexdigest()[:16]
    CLASSES.mkdir(parents=True, exist_ok=True)
    with (CLASSES / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may start at once
        if not classes.exists():
            _compile(sources, class_path, classes)
    return classes


def _compile(sources: Sequence[Path], class_path: str, classes: Path) -> None:
    with tempfile.TemporaryDirectory(dir=CLASSES) as directory:
        fresh = Path(directory) / "classes"
        command = [java_tool("javac"), "-nowarn", "-d", str(fresh), "-cp", class_path]
        compiler = subprocess.run(
            [*command, *map(str, sources)], capture_output=True, text=True, check=False
        )
        if compiler.returncode != 0:
            raise RuntimeError(f"javac refused {sources[0].parent}:\n{compiler.stderr}")
        fresh.rename(classes)
