"""The archive in which the environment travels to executors, as venv-pack and conda-pack make it.

It holds a virtual environment: stream_app as its wheel installs it, and what that depends on.
PySpark stays out, because each machine of a cluster has Spark. On this one machine the packages of
others are links, which spares packing 400 MB.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from tests.support.jobs.ingest_process import ROOT

_OMITTED = {"pyspark", "py4j"}
_TOP = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


def imports_stream_app(folder: Path) -> bool:
    """Return whether the interpreter of the archive finds stream_app without the archive."""
    command = [str(_interpreter()), "-c", "import stream_app"]
    result = subprocess.run(command, cwd=folder, env={}, check=False, capture_output=True)
    return result.returncode == 0


def _interpreter() -> Path:
    return Path(sys.base_prefix) / "bin" / Path(_TOP).parts[1]


def pack_environment(archive: Path) -> Path:
    """Write the archive, ``….tar.gz``; its ``bin/python`` is the interpreter."""
    interpreter = _interpreter()
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        _add_link(tar, "bin/python", interpreter)
        settings = f"home = {interpreter.parent}\ninclude-system-site-packages = false\n".encode()
        entry = tarfile.TarInfo("pyvenv.cfg")
        entry.size = len(settings)
        tar.addfile(entry, io.BytesIO(settings))
        for module in sorted((ROOT / "stream_app").rglob("*")):
            if module.is_file() and "__pycache__" not in module.parts:
                tar.add(module, f"{_TOP}/{module.relative_to(ROOT)}")
        for name in sorted(_packages("stream_app")):
            _add_link(tar, f"{_TOP}/{name}", Path(sysconfig.get_path("platlib")) / name)
    return archive


def _add_link(tar: tarfile.TarFile, name: str, target: Path) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, str(target)
    tar.addfile(entry)


def _packages(name: str) -> set[str]:
    """Return the names in site-packages of all that a distribution depends on."""
    seen_names, packages, remaining_names = set(_OMITTED), set[str](), [name]
    while remaining_names:
        name = remaining_names.pop()
        if name in seen_names:
            continue
        seen_names.add(name)
        try:
            package = distribution(name)
        except PackageNotFoundError:  # of another Python, or of another system
            continue
        remaining_names += _requirements(package)
        if name != "stream_app":
            packages |= {path.parts[0] for path in package.files or () if ".." not in path.parts}
    return packages - {"__pycache__"}


def _requirements(package: Distribution) -> Iterator[str]:
    """Return the requirements of a distribution without those of extras."""
    for text in package.requires or ():
        if "extra ==" not in text and (name := re.match(r"[\w.-]+", text)):
            yield name[0]
