"""Every connector in the documentation and in the Compose example keeps nulls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def connectors() -> list[tuple[str, dict[str, Any]]]:
    connectors = []
    for path in [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docker/**/*.json")]:
        for text in re.findall(r'\{[^{}]*"connector\.class"[^{}]*\}', path.read_text()):
            connectors.append((path.name, json.loads(re.sub(r"\$\{?\w+\}?", "0", text))))
    return connectors


@pytest.mark.parametrize(("page", "settings"), connectors(), ids=lambda it: str(it)[:20])
def test_a_null_stays_null(page: str, settings: dict[str, Any]) -> None:
    assert settings["value.converter.replace.null.with.default"] == "false", page


def test_the_tutorial_and_the_example_have_one() -> None:
    assert {page for page, _ in connectors()} >= {"tutorial.md", "shop.json"}
