"""Which ``java`` is run, and in which environment: for the broker, for Ivy and for Spark."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from stream_app.errors import UsageError

JAVA_VERSION_MIN = 17


def find_java() -> Path:
    """The ``java`` of ``$JAVA_HOME`` or of the path.

    Raises:
        UsageError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise UsageError(
            "there is no 'java'" + (f" in JAVA_HOME ({home})" if home else " in the path"),
            fix=f"install Java {JAVA_VERSION_MIN} (Debian: apt-get install "
            f"openjdk-{JAVA_VERSION_MIN}-jdk-headless) or set JAVA_HOME",
        )
    return Path(found)


def unicode_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment in which Java reads file names as UTF-8: it does as the locale says."""
    named = (environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name))
    if re.search("utf-?8", next(named, ""), re.IGNORECASE):
        return dict(environ)
    return {**environ, "LC_ALL": "C.UTF-8"}
