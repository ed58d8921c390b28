# /// script
# requires-python = ">=3.11"
# dependencies = ["cyclonedx-bom>=7", "cyclonedx-python-lib[json-validation]"]
# ///
"""Writes the image's bill of materials, as CycloneDX: packages of the lock, and jars.

    uv run docker/sbom.py --jars .jars/s3a-3.4.2 --jars …/site-packages/pyspark/jars > sbom.json

Packages come from conf/requirements.lock, with the hashes there. A jar says in META-INF/maven which
module it is; of one that does not, name and version are its file's. The result is held against
CycloneDX's own schema. What the base image brings is not in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

PROJECT = Path(__file__).resolve().parents[1]
LOCK = PROJECT / "conf" / "requirements.lock"
_OF_MAVEN = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
_NAME = re.compile(r"(.+?)-(\d[\w.+-]*)\.jar")


def packages() -> dict[str, Any]:
    """Return the document of the locked packages, which belong to stream_app."""
    options = ["--pyproject", str(PROJECT / "pyproject.toml"), "--spec-version", "1.6"]
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", *options, str(LOCK)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def component(jar: Path) -> dict[str, Any]:
    """Return the component of a jar, as the jar describes itself."""
    match = _NAME.fullmatch(jar.name)
    name, version = (match[1], match[2]) if match else (jar.stem, "")
    description: dict[str, Any] = {"type": "library", "name": name, "version": version}
    module = _module(jar, name)
    if module:
        description |= {"group": module["groupId"], "version": module["version"]}
        description["purl"] = f"pkg:maven/{module['groupId']}/{name}@{module['version']}?type=jar"
    content = hashlib.sha256(jar.read_bytes()).hexdigest()
    return description | {
        "bom-ref": f"jar:{jar.name}:{content[:12]}",
        "hashes": [{"alg": "SHA-256", "content": content}],
    }


def _module(jar: Path, name: str) -> dict[str, str]:
    """Return the pom.properties of the jar's own module; a shaded jar also has those of others."""
    with zipfile.ZipFile(jar) as archive:
        for entry in filter(_OF_MAVEN.fullmatch, archive.namelist()):
            lines = archive.read(entry).decode("utf-8", "replace").splitlines()
            pairs = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
            properties = {key.strip(): value.strip() for key, value in pairs.items()}
            is_own = properties.get("artifactId") == name
            if is_own and {"groupId", "version"} <= properties.keys():
                return properties
    return {}


def main() -> int:
    """Print the document, and return 1 if it is not valid CycloneDX."""
    parser = argparse.ArgumentParser(description="Write the bill of materials as CycloneDX.")
    parser.add_argument("--jars", type=Path, action="append", default=[], metavar="FOLDER")
    folders = parser.parse_args().jars
    for folder in folders:
        if not folder.is_dir():
            parser.error(f"no folder {folder}")
    document = packages()
    jars = sorted(jar for folder in folders for jar in folder.rglob("*.jar"))
    components = {part["bom-ref"]: part for part in map(component, jars)}
    document["components"] += components.values()
    text = json.dumps(document, indent=1)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        print(f"not CycloneDX 1.6: {problem}", file=sys.stderr)
        return 1
    print(text)
    print(f"{len(document['components'])} components", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
