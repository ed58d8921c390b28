"""Finds ``java`` for the broker, Ivy and Spark, and prepares its environment."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from stream_app.errors import UsageError

JAVA_VERSION_MIN = 17


def find_java() -> Path:
    """Return the ``java`` of ``$JAVA_HOME`` or of the path.

    Raises:
        UsageError: there is no Java.
    """
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if program is None:
        raise UsageError(
            "there is no 'java'" + (f" in JAVA_HOME ({home})" if home else " in the path"),
            fix=f"install Java {JAVA_VERSION_MIN} (Debian: apt-get install "
            f"openjdk-{JAVA_VERSION_MIN}-jdk-headless) or set JAVA_HOME",
        )
    return Path(program)


def java_version(program: Path) -> str | None:
    """Return the version that a Java reports, such as ``17.0.15``, or None if it reports none."""
    process = subprocess.run(
        [program, "-version"], capture_output=True, text=True, timeout=30, check=False
    )
    match = re.search(r'version "(\d[^"]*)"', process.stderr)
    return match[1] if match else None


def is_new_enough(version: str) -> bool:
    """Return whether Spark and Kafka run on this version of Java."""
    return int(re.split(r"\D", version)[0]) >= JAVA_VERSION_MIN


def checked_java() -> Path:
    """Return the ``java`` that `find_java` finds, after checking its version.

    Raises:
        UsageError: Java is missing or too old. A Java without a reported version is accepted.
    """
    program = find_java()
    version = java_version(program)
    if version is not None and not is_new_enough(version):
        raise UsageError(
            f"{program} is Java {version}, and Java {JAVA_VERSION_MIN} or newer is needed",
            fix=f"install Java {JAVA_VERSION_MIN}, or set JAVA_HOME to it",
        )
    return program


def unicode_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment with a UTF-8 locale, from which Java decodes file names."""
    locales = (environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name))
    if re.search("utf-?8", next(locales, ""), re.IGNORECASE):
        return dict(environ)
    return {**environ, "LC_ALL": "C.UTF-8"}
