"""Compares the layers that docs/ARCHITECTURE.md draws with the contracts of pyproject.toml.

The contracts that list formats name the same ones.
"""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.tidy.project_files import text_of

_BLOCK = re.compile(r"^```\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
_ROOMS = ("app", "spark", "epochs", "table", "cdc")
_DRAWN = ("stream_app", *(f"stream_app.{name}" for name in _ROOMS))
"""The packages whose layers the page draws, in its order."""


def drawn_layers(block: str) -> list[list[str]]:
    """The names of each layer; a line of names that ends with ``|`` goes on in the next."""
    layers: list[list[str]] = []
    goes_on = False
    for line in block.splitlines():
        names = re.split(r" {3,}", line)[0].strip()
        if not goes_on:
            layers.append([])
        layers[-1] += [name.strip() for name in names.removesuffix("|").split("|")]
        goes_on = names.endswith("|")
    return layers


def contract_layers(package: str) -> list[list[str]]:
    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (layers,) = (entry["layers"] for entry in contracts if entry.get("containers") == [package])
    return [[name.strip() for name in layer.split("|")] for layer in layers]


@pytest.mark.parametrize(("place", "package"), [*enumerate(_DRAWN)])
def test_the_page_draws_the_layers_of_the_contracts(place: int, package: str) -> None:
    layers = text_of("docs/ARCHITECTURE.md").partition("\n## Layers\n")[2].partition("\n## ")[0]
    block = _BLOCK.findall(layers)[place]
    assert drawn_layers(block) == contract_layers(package)


def test_the_formats_are_the_same_in_both_contracts() -> None:
    contracts = tomllib.loads(text_of("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (protected_modules,) = (
        entry["protected_modules"] for entry in contracts if "A format is known" in entry["name"]
    )
    formats = sorted(name.removeprefix("stream_app.cdc.") for name in protected_modules)
    assert formats in map(sorted, contract_layers("stream_app.cdc"))
