"""Runs the Dockerfile's steps in a folder with a Debian, where there is no container engine.

    debootstrap --include=ca-certificates,python3-venv bookworm ROOT
    python docker/try_in_chroot.py ROOT               # as root; all stages share the one folder
    python docker/try_in_chroot.py ROOT stream-app doctor --conf /data/job.toml

The second form runs a command as the image would: as its user, in its folder, with its variables,
on a read-only root where it can write to /tmp and /data alone. It does not try the base image,
the layers, HEALTHCHECK and ENTRYPOINT.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
DOCKERFILE = PROJECT / "docker" / "Dockerfile"
WITH_DEVICES = (
    'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
)
READ_ONLY = """
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t proc proc "$0/proc" &&
mount -t tmpfs tmpfs "$0/tmp" && mkdir -p "$0.data" && chown {user} "$0.data" &&
mount --bind "$0.data" "$0/data" && mount --rbind /dev "$0/dev" &&
exec chroot --userspec={user} "$0" "$@"
"""


def steps() -> list[tuple[str, str]]:
    """Return each instruction with its words; joins continued lines and omits comments."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")]
    joined_lines = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(line.split()[0], line.split(" ", 1)[1]) for line in joined_lines.splitlines() if line]


def copy(words: str, root: Path, folder: str) -> None:
    """Copy files of the project; those of another stage are in the folder already."""
    *sources, target = words.split()
    if sources[0].startswith("--from"):
        return
    for source in sources:
        path = root / Path("/", folder, target).relative_to("/")
        if (PROJECT / source).is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / source, path, dirs_exist_ok=True, ignore=ignore)
        else:
            path = path / Path(source).name if target.endswith("/") else path
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / source, path)


def build(root: Path) -> None:
    """Run each step, and store the variables, folder and user of the last stage for `run`."""
    variables: dict[str, str] = {}
    folder, user = "/", "0:0"
    for instruction, words in steps():
        print(f"{instruction} {words}", flush=True)
        if instruction == "FROM":
            variables, folder = {}, "/"
        elif instruction == "ENV":
            variables |= dict(word.split("=", 1) for word in shlex.split(words))
        elif instruction == "WORKDIR":
            folder = words
            (root / words.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif instruction == "USER":
            user = words
        elif instruction == "COPY":
            copy(words, root, folder)
        elif instruction == "RUN":
            environment = ["env", *(f"{key}={value}" for key, value in variables.items())]
            script = f"cd {shlex.quote(folder)} && {words}"
            chroot = ["unshare", "--mount", "sh", "-c", WITH_DEVICES, str(root)]
            subprocess.run([*chroot, *environment, "sh", "-c", script], check=True)
    image = {"variables": variables, "folder": folder, "user": user}
    root.with_name(f"{root.name}.image.json").write_text(json.dumps(image))


def run(root: Path, command: list[str]) -> int:
    """Run a command on a read-only root, and return its exit code."""
    image = json.loads(root.with_name(f"{root.name}.image.json").read_text())
    variables = {
        key: value.replace("$PATH", "/usr/local/bin:/usr/bin:/bin")
        for key, value in image["variables"].items()
    }
    environment = ["env", "-i", *(f"{key}={value}" for key, value in variables.items())]
    script = f'cd {image["folder"]} && exec "$@"'
    words = ["sh", "-c", READ_ONLY.format(user=image["user"]), str(root)]
    words += [*environment, "sh", "-c", script, "sh", *command]
    return subprocess.run(["unshare", "--mount", *words], check=False).returncode


if __name__ == "__main__":
    place = Path(sys.argv[1]).resolve()
    sys.exit(run(place, sys.argv[2:]) if sys.argv[2:] else build(place))
