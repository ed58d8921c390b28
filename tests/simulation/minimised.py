"""Makes a failing scenario small: leaves out all that its failure does not need."""

from __future__ import annotations

from tests.simulation.scenario import Scenario
from tests.simulation.simulation import run

MINIMISING_RUNS = 400


def removable_parts(tried_scenario: Scenario, failure: BaseException) -> list[str]:
    """Names of parts that can be left out so that it still fails in the same way."""
    left_out: list[str] = []
    for name in tried_scenario.parts[:MINIMISING_RUNS]:
        outcome = run(tried_scenario.without([*left_out, name]))
        if _kind_of(outcome.failure) == _kind_of(failure):
            left_out.append(name)
    return left_out


def _kind_of(failure: BaseException | None) -> tuple[type, list[str]]:
    """Return a failure's class and first word, without numbers and names."""
    return type(failure), str(failure).split()[:1]
