"""Prints the lock's lines of packages, with the hashes of only those wheels that are supported.

    python -m tests.support.suite.supported_hashes charset-normalizer==3.5.2 coverage==7.17.3 …

Some packages have files for more than a hundred pairs of Python and platform, and the lock has a
limit. pip tells which wheel it takes for each supported pair; it downloads none of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (
    ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64"),
    ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64"),
    ("macosx_14_0_arm64",),
    ("macosx_13_0_x86_64",),
)


def hashes_of(pin: str) -> set[str]:
    """Return the SHA-256 of each wheel in hexadecimal; platforms without one are named."""
    hashes = set()
    for python, platform in product(PYTHONS, PLATFORMS):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--report=-"]
        pip += ["--no-deps", "--ignore-installed", "--only-binary=:all:", "--target=nowhere"]
        pip += ["--implementation=cp", f"--python-version={python}"]
        pip += [f"--platform={tag}" for tag in platform]
        result = subprocess.run([*pip, pin], capture_output=True, text=True, check=False)
        if result.returncode:
            print(f"# {pin} has no wheel for Python {python}, {platform[0]}", file=sys.stderr)
            continue
        [package] = json.loads(result.stdout)["install"]
        hashes.add(package["download_info"]["archive_info"]["hashes"]["sha256"])
    return hashes


def main() -> None:
    for pin in sys.argv[1:]:
        print(
            " \\\n    ".join(
                [pin, *(f"--hash=sha256:{digest}" for digest in sorted(hashes_of(pin)))]
            )
        )


if __name__ == "__main__":
    main()
