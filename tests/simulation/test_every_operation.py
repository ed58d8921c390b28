"""A process, or its machine, dies after each single file operation of a history in turn.

Not sampled: the history's operations are counted, and then each one is struck in a run of its own.
Whoever comes after finds the table whole and finishes what is pending.
"""

from __future__ import annotations

import pytest

from tests.simulation.faults import GROUPS, FaultKind, Group
from tests.simulation.scenario import Action, Round, Scenario, Verb
from tests.simulation.simulation import run

KEY = {
    "bucket": "1",
    "changelog-producer": "input",
    "num-sorted-run.compaction-trigger": "2",
    "manifest.merge-min-count": "2",
}
APPEND = {"compaction.min.file-num": "2", "manifest.merge-min-count": "2"}
EXPIRING = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "file-operation.thread-num": "1",
}
EPOCHS, EPOCH = Action("", "job", Verb.EPOCH, (4, 3)), Action("", "job", Verb.EPOCH, (3,))
DRAIN, WHOLE = Action("", "job", Verb.DRAIN), Action("", "job", Verb.WHOLE)
EXPIRE = Action("", "expirer", Verb.EXPIRE)
WRITING = (EPOCHS, DRAIN, EPOCH, WHOLE)
HISTORIES = {
    "key": ("key", KEY, WRITING),
    "append": ("append", {"bucket": "-1", **APPEND}, WRITING),
    "bucketed append": ("bucketed append", {"bucket": "1", "bucket-key": "k", **APPEND}, WRITING),
    "expiring": ("key", {**KEY, **EXPIRING}, (EPOCHS, DRAIN, EXPIRE, EPOCH)),
}


def history(name: str) -> Scenario:
    """Three epochs, with a compaction between them and a whole one, or an expiry."""
    kind, options, steps = HISTORIES[name]
    rounds = tuple(Round(f"r{at}", at, (step,), ()) for at, step in enumerate(steps))
    return Scenario(1, kind, options, False, rounds)


def changes_files(what: str) -> bool:
    return GROUPS[what] is not Group.READ


@pytest.mark.parametrize("name", list(HISTORIES))
def test_the_history_does_all_that_can_fail(name: str) -> None:
    outcome = run(history(name))
    assert outcome.failure is None
    assert outcome.snapshots >= 4
    for what in ("open_output", "sync", "write_bytes", "create_if_absent", "overwrite"):
        assert what in outcome.operations
    if name == "expiring":
        assert "delete" in outcome.operations[: outcome.end_of_rounds]


@pytest.mark.parametrize("fault", [FaultKind.DIES_AFTER, FaultKind.POWER_AFTER, FaultKind.LOST,
                                   FaultKind.OUTAGE, FaultKind.HALF])  # fmt: skip
@pytest.mark.parametrize("name", list(HISTORIES))
def test_whatever_operation_is_struck_the_table_is_whole(name: str, fault: FaultKind) -> None:
    tried = history(name)
    untouched = run(tried)
    for at, what in enumerate(untouched.operations[: untouched.end_of_rounds]):
        # After reading, the machine's death is the process's, and a failure is told above.
        if fault is FaultKind.DIES_AFTER or changes_files(what):
            outcome = run(tried, strikes=(at, fault))
            assert outcome.failure is None, (at, what, outcome.failure)
            assert outcome.struck == 1
