"""Thousands of random histories with faults, and the same seed gives the same history."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation.seeds import scenario
from tests.simulation.simulation import run
from tests.simulation.world import World
from tests.support.suite.strides import Strides

SEEDS = 150
"""A third of them without ``--thorough``. They are always the same: what fails here was broken by
the change that is tested. New ones are looked for by ``./run.sh simulate --from N``."""


def simulate(*arguments: object) -> str:
    """Output of the command; a failing one is the test's failure, with how to repeat it."""
    command = [sys.executable, "-m", "tests.simulation", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_all_promises_are_kept_through_known_seeds(strides: Strides) -> None:
    assert "0 seeds failed" in simulate("--seeds", SEEDS // strides.length, "--processes", 2)


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 8, 13])
def test_the_same_seed_makes_the_same_run(seed: int) -> None:
    first, second = run(scenario(seed)), run(scenario(seed))
    assert first.failure is second.failure is None
    assert first.trace == second.trace != World(seed).trace
    assert first.operations == second.operations


@pytest.mark.variant
def test_the_same_seed_makes_the_same_run_in_another_process() -> None:
    assert simulate("--seed", 8) == simulate("--seed", 8)


def test_a_scenario_can_leave_parts_out() -> None:
    whole = scenario(3)
    assert whole.without(["r0"]).rounds == whole.rounds[1:]
    assert whole.without(whole.parts).rounds == ()
    [action, *_] = whole.rounds[0].actions
    assert action not in whole.without([action.name]).rounds[0].actions
