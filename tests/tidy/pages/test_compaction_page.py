"""The simulation confirms each figure and each recipe that the pages give for compaction."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import pytest

from bench.compact.compaction_outcome import HEAD, Outcome
from bench.compact.compaction_simulation import FLUSHES, FRESHNESS, simulate
from bench.compact.loads import INSERTS, LOADS, MB, UPDATES, Load
from tests.support.suite.datadriven import rewriting
from tests.tidy.project_files import ROOT, text_of

PAGE = "docs/operate/compaction.md"
_RECIPE = re.compile(r"^### ([^\n]+)\n(?:(?!^#).)*?^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def rows_of(text: str) -> list[str]:
    """The rows of the tables that the simulation fills."""
    tables = text.split("\n".join(HEAD) + "\n")[1:]
    return [
        row
        for table in tables
        for row in itertools.takewhile(lambda line: line.startswith("|"), table.splitlines())
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [PAGE, "docs/performance/compacting.md", "docs/reference/scaling.md"]
)
def test_the_figures_are_those_of_the_simulation(page: str, seed: int) -> None:
    """A twelfth of the rows, by the seed; REWRITE=1 simulates all."""
    text = text_of(page)
    rows = rows_of(text)
    assert len(rows) >= 9
    simulations = {
        row: simulated_row(row) for row in (rows if rewriting() else rows[seed % 12 :: 12])
    }
    if rewriting():
        for row, figures in simulations.items():
            text = text.replace(row + "\n", figures + "\n")
        (ROOT / page).write_text(text, encoding="utf-8")
        return
    assert [row for row, figures in simulations.items() if row != figures] == [], (
        "REWRITE=1 rewrites the figures"
    )


def simulated_row(row: str) -> str:
    load, settings = (cell.strip() for cell in row.split("|")[1:3])
    options = dict(re.findall(r"`([^`]+)` = ([^,]+)", settings))
    assert bool(options) != (settings == "defaults"), settings
    freshness = FRESHNESS if options.pop("compaction-policy", None) else None
    longer = re.search(r"epochs (\d+) × as long", settings)
    times = int(longer[1]) if longer else 1
    shape = LOADS[load].with_longer_epochs(times)
    return outcome(shape, FLUSHES // times, freshness, **options).markdown(load, settings)


@cache
def outcome(load: Load, flushes: int, freshness: int | None = None, **options: object) -> Outcome:
    """Simulated once, though several rows, pages and recipes may speak of it."""
    return simulate(load, options, flushes, freshness=freshness)


@dataclass(frozen=True)
class Claim:
    """A recipe's promise: `better` compares the outcome without it and with it."""

    load: Load
    better: Callable[[Outcome, Outcome], bool]
    flushes: int = 3_000


LARGE = replace(INSERTS, flush_size=4 * MB)
CLAIMS = {
    "Compaction writes too much": Claim(
        UPDATES, lambda old, new: new.write_amplification < old.write_amplification / 2
    ),
    "Reading is slow": Claim(
        UPDATES,
        lambda old, new: (
            new.runs_mean < old.runs_mean - 1 and new.write_amplification < old.write_amplification
        ),
    ),
    "Writes wait": Claim(LARGE, lambda old, new: new.delayed_count < old.delayed_count / 4),
    "The table is much larger than its rows": Claim(
        UPDATES,
        lambda old, new: (
            new.space_mean - 1 < (old.space_mean - 1) / 1.5 and new.space_max < old.space_max
        ),
    ),
    "Many small files": Claim(LARGE, lambda old, new: new.files < old.files / 2),
    "A small table that is read often": Claim(
        replace(UPDATES, keys_size=20 * MB),
        lambda old, new: new.runs_mean <= 3 < old.runs_mean - 2 and new.space_max < old.space_max,
    ),
    "Nights are quiet": Claim(
        UPDATES, lambda old, new: new.write_amplification < old.write_amplification, 6_000
    ),
    "Several jobs write the table": Claim(
        UPDATES,
        lambda old, new: new.compactions == 0 < old.compactions and not new.delayed_count,
        500,
    ),
}
"""Recipe by recipe; a test sees that none is missing."""


def recipes() -> dict[str, dict[str, object]]:
    recipes = {name: tomllib.loads(text) for name, text in _RECIPE.findall(text_of(PAGE))}
    return {name: document["table"]["options"] for name, document in recipes.items()}


def test_every_recipe_is_tried() -> None:
    assert recipes().keys() == CLAIMS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMS)
def test_a_recipe_does_what_it_promises(name: str) -> None:
    claim = CLAIMS[name]
    old, new = (outcome(claim.load, claim.flushes, **options) for options in ({}, recipes()[name]))
    assert claim.better(old, new), f"without: {old}\nwith: {new}"
