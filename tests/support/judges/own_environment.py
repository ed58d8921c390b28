"""Creates virtual environments (.venvs/NAME) for judges that pin other libraries than ours.

The pip of this environment fills them, and compiles nothing: a judge imports a small part of them.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / ".venvs"


def python_of(name: str, lock_list: Path) -> Path:
    """Return an environment's Python; create it if it is missing or its lock changed."""
    environment = FOLDER / name
    interpreter, stamp = environment / "bin" / "python", environment / "made-from"
    expected = hashlib.sha256(lock_list.read_bytes() + sys.version.encode()).hexdigest()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may start at once
        if not stamp.exists() or stamp.read_text() != expected:
            _make(environment, lock_list)
            stamp.write_text(expected)
    return interpreter


def _make(environment: Path, lock_list: Path) -> None:
    venv.create(environment, clear=True, with_pip=False)
    interpreter = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-deps"]
    command += ["--no-compile", "--disable-pip-version-check", "--quiet", "-r", lock_list]
    pip = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )
    if pip.returncode != 0:
        raise RuntimeError(f"could not make {environment} from {lock_list}:\n{pip.stderr[-2000:]}")
