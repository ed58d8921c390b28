"""Makes the virtual environment that ``run.sh`` runs in, and says all the while how far it is.

Run as a file by any Python that is new enough, before anything is installed: the standard library
only. Output of pip goes to ``setup.log`` in the environment. The screen gets a line for each
fetched package, and otherwise one every few seconds.

An unfinished environment is recreated, because pip takes a half unpacked package for an installed
one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SILENT_S = 5.0
"""After so long a line is said all the same."""
_END_S = 3.0
_TAIL = 15
_MARK = "incomplete"
_WORKERS = 'import os, sys; os.environ.setdefault("PYSPARK_PYTHON", sys.executable)\n'
"""Else Spark starts the path's python3 for its workers, in which nothing is installed."""
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install")


@dataclass(slots=True)
class PipProgress:
    """What pip's lines say of how far it is.

    Attributes:
        count: packages that are asked for.
        begun: of which pip has begun with so many.
        doing: what it is at.
    """

    count: int
    begun: int = 0
    doing: str = "asking the registry"

    def take(self, line: str) -> str | None:
        """Take in a line; what is worth saying of it."""
        if re.match(r"(Collecting|Requirement already satisfied)\b", line):
            self.begun += 1
        elif found := re.match(r"\s*(Downloading|Using cached) (\S+) \((.+)\)", line):
            self.doing = f"{found[1].lower()} {found[2].rpartition('/')[2]} ({found[3]})"
            return self.text()
        elif found := re.match(r"\s*Building wheel for (\S+)", line):
            self.doing = f"packing {found[1]}"
            return self.text()
        elif line.startswith("Installing collected packages"):
            self.doing = f"unpacking {line.count(',') + 1} packages"
            return self.text()
        return None

    def text(self) -> str:
        """``12 of 22 packages: downloading pyspark-4.1.3.tar.gz (455 MB)``."""
        return f"{min(self.begun, self.count)} of {self.count} packages: {self.doing}"


@dataclass(slots=True)
class CommandRunner:
    """Runs commands, keeps their output in a log, and prints a line of progress.

    Attributes:
        log: gets all that they say.
        say: of a line for the user.
    """

    log: Path
    say: Callable[[str], None]
    _last: float = field(default_factory=time.monotonic)

    def run(self, command: Sequence[str], doing: Callable[[str], str | None], now: str) -> None:
        """Run a command.

        Args:
            doing: gets each of its lines; answers what is worth saying.
            now: what it is at, until a line says better.

        Raises:
            SystemExit: it failed; its last words are said.
        """
        said: list[str] = []
        with (
            self.log.open("a", encoding="utf-8") as log,
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
            ) as process,
        ):

            def listen() -> None:
                nonlocal now
                assert process.stdout is not None
                for line in process.stdout:
                    log.write(line)
                    said.append(line.rstrip())
                    if worth := doing(line):
                        now = worth
                        self._tell(worth)

            listener = threading.Thread(target=listen, daemon=True)
            listener.start()
            began = time.monotonic()
            try:
                while process.poll() is None:
                    listener.join(0.2)
                    if time.monotonic() - self._last > SILENT_S:
                        self._tell(f"{now} … {time.monotonic() - began:.0f} s")
                    if not listener.is_alive():
                        process.wait()
            except KeyboardInterrupt:
                _end(process)
                raise
            listener.join()
        if process.returncode:
            tail = "\n".join(f"    {line}" for line in said[-_TAIL:])
            raise SystemExit(f"run.sh: set-up failed; {self.log} has the whole output:\n{tail}")

    def _tell(self, line: str) -> None:
        self._last = time.monotonic()
        self.say(line)


def _end(process: subprocess.Popen[str]) -> None:
    """Ctrl-C has reached it as well."""
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()


def pinned(locks: Sequence[Path]) -> int:
    """How many packages the lock files name."""
    lines = [line for lock in locks for line in lock.read_text(encoding="utf-8").splitlines()]
    return sum("==" in line for line in lines)


def set_up(venv: Path, project: Path, locks: Sequence[Path], say: Callable[[str], None]) -> None:
    """Make the environment, or bring it up to date.

    Args:
        locks: files of pinned packages.

    Raises:
        SystemExit: a step failed.
    """
    began, python, mark = time.monotonic(), str(venv / "bin" / "python"), venv / _MARK
    is_new = mark.exists() or not Path(python).exists()
    venv.mkdir(parents=True, exist_ok=True)
    steps = CommandRunner(venv.parent / f"{venv.name}-setup.log", say)
    steps.log.unlink(missing_ok=True)
    if is_new:
        now = f"making {venv} with Python {sys.version.split()[0]}"
        say(now)
        steps.run([sys.executable, "-m", "venv", "--clear", str(venv)], lambda _: None, now)
    mark.touch()
    progress = PipProgress(pinned(locks))
    say(f"fetching {progress.count} pinned packages, about 700 MB when nothing is cached")
    arguments = [*_PIP, "--use-pep517", "--progress-bar", "off"]
    steps.run(
        [python, *arguments, *(f"-r{lock}" for lock in locks)], progress.take, progress.text()
    )
    now = "installing stream_app itself"
    say(now)
    steps.run(
        [python, *_PIP, "--no-deps", "--no-build-isolation", "-e", str(project)],
        lambda _: None,
        now,
    )
    (site,) = venv.glob("lib/python3.*/site-packages")
    (site / "stream_app_workers.pth").write_text(_WORKERS, encoding="utf-8")
    size = sum(path.lstat().st_size for path in venv.rglob("*")) / 1e6
    mark.unlink()
    steps.log.replace(venv / "setup.log")
    say(f"{progress.count} packages, {size:.0f} MB, in {time.monotonic() - began:.0f} s")


def main(arguments: Sequence[str]) -> int:
    """``set_up.py VENV PROJECT LOCK…``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("venv", type=Path)
    parser.add_argument("project", type=Path)
    parser.add_argument("locks", type=Path, nargs="+")
    args = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(f"run.sh: {line}", file=sys.stderr, flush=True)

    try:
        set_up(args.venv, args.project, args.locks, say)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
