"""CONTRIBUTING names the registry of every kind of part that has variants."""

from __future__ import annotations

import re

from tests.tidy.project_files import ROOT, text_of

OTHERS = {"schema_registry"}
"""A service beside Kafka, which holds schemas of messages."""
_ROW = re.compile(r"^  \| ([a-z ]+) \| ([^|]+) \| `([\w/]+)(?:\.py)?`( there)? \|$", re.MULTILINE)


def test_every_registry_of_the_product_is_named_with_its_folder() -> None:
    rows = _ROW.findall(text_of("CONTRIBUTING.md"))
    documented_folders = set()
    for _, module_cell, registry, is_there in rows:
        [folder, *_] = re.findall(r"`([\w/]+)`", module_cell)
        assert (ROOT / "stream_app" / folder).is_dir(), folder
        path = ROOT / "stream_app" / (folder if is_there else "") / f"{registry}.py"
        assert path.is_file(), path
        documented_folders.add(path)
    registries = {path for path in (ROOT / "stream_app").rglob("*_registry.py")}
    assert {path for path in registries if path.stem not in OTHERS} <= documented_folders
