"""A process, or its machine, dies after single file operations of a history in turn.

The history's operations are counted, and then every third one is struck in a run of its own, or
each with ``--thorough``; in the histories of upkeep, operations of its processes. The next process
finds the table whole and finishes what is pending. What two strikes would leave alike is struck
once.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from tests.simulation.faults import GROUPS, FaultKind, Group
from tests.simulation.kinds import KINDS
from tests.simulation.scenario import Action, Round, Scenario, Verb
from tests.simulation.simulation import Outcome, run
from tests.support.suite.strides import Strides

KEY = {
    "bucket": "1",
    "changelog-producer": "input",
    "num-sorted-run.compaction-trigger": "2",
    "manifest.merge-min-count": "2",
}
DYNAMIC = {
    "bucket": "-1",
    "dynamic-bucket.target-row-num": "3",
    "dynamic-bucket.initial-buckets": "2",
}
LOOKUP = {**KEY, "changelog-producer": "lookup"}
SUMS = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
FIRST = {"merge-engine": "first-row", "ignore-delete": "true"}
PARTIAL = {"merge-engine": "partial-update", "ignore-delete": "true"}
VECTORS = {"deletion-vectors.enabled": "true"}
ACROSS = {
    "bucket": "-1",
    "dynamic-bucket.target-row-num": "2",
    "dynamic-bucket.assigner-parallelism": "1",
}
APPEND = {"compaction.min.file-num": "2", "manifest.merge-min-count": "2"}
EXPIRING = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "1",
    "file-operation.thread-num": "1",
}
KEEPING = {**EXPIRING, "changelog.num-retained.max": "3", "changelog.num-retained.min": "1"}
EPOCHS, EPOCH = Action("", "job", Verb.EPOCH, (4, 3)), Action("", "job", Verb.EPOCH, (3,))
EMPTYING = Action("", "job", Verb.EMPTYING, (3,))
DRAIN, WHOLE = Action("", "job", Verb.DRAIN), Action("", "job", Verb.WHOLE)
RESTART = Action("", "job", Verb.RESTART)
EXPIRE = Action("", "expirer", Verb.EXPIRE)
TAG, UNTAG = Action("", "tagger", Verb.TAG), Action("", "tagger", Verb.UNTAG)
FOLLOW, FORGET = Action("", "follower", Verb.FOLLOW), Action("", "forgetter", Verb.FORGET)
DELETE = Action("", "deleter", Verb.DELETE)
MOVE, RESCALE = Action("", "compactor", Verb.DRAIN), Action("", "rescaler", Verb.RESCALE)
DROP = Action("", "dropper", Verb.DROP)
SWEEP = Action("", "sweeper", Verb.SWEEP)
BRANCH, UNBRANCH = (Action("", "brancher", verb) for verb in (Verb.BRANCH, Verb.UNBRANCH))
ROLL_BACK = Action("", "restorer", Verb.ROLL_BACK)
WRITING = (EPOCHS, DRAIN, EPOCH, WHOLE)
LIFTING = (EPOCHS, EPOCH)
"""Each epoch compacts, and waits for that."""
HISTORIES = {
    "key": ("key", KEY, WRITING),
    "append": ("append", {"bucket": "-1", **APPEND}, WRITING),
    "bucketed append": ("bucketed append", {"bucket": "1", "bucket-key": "k", **APPEND}, WRITING),
    "buckets as keys come": ("key", {**KEY, **DYNAMIC}, (EPOCHS, DRAIN, EMPTYING, EPOCH)),
    "expiring": ("key", {**KEY, **EXPIRING}, (EPOCHS, DRAIN, EXPIRE, EPOCH)),
    "emptied": ("key", KEY, (EPOCHS, EMPTYING, EPOCH)),
    "emptied append": ("append", {"bucket": "-1", **APPEND}, (EPOCHS, EMPTYING, EPOCH)),
}
UPKEEP = {
    "tags": ("key", {**KEY, **EXPIRING}, (EPOCHS, TAG, EPOCH, EXPIRE, UNTAG), ("tagger",)),
    "a consumer": (
        "key", {**KEY, **EXPIRING}, (EPOCHS, FOLLOW, EPOCH, FOLLOW, FORGET, EXPIRE, FOLLOW),
        ("follower", "forgetter"),
    ),
    "changelogs": ("key", {**KEY, **KEEPING}, (EPOCHS, EXPIRE, EPOCHS, EXPIRE), ("expirer",)),
    "flushed changelogs": (
        "key", {**KEY, **KEEPING, "changelog-producer": "none"}, (EPOCHS, EXPIRE, EPOCHS, EXPIRE),
        ("expirer",),
    ),
    "deleted rows": ("append", {"bucket": "-1", **APPEND}, (EPOCHS, DELETE, EPOCH), ("deleter",)),
    "a partition": ("key", KEY, (EPOCHS, DROP, EPOCH), ("dropper",)),
    # A branch that is deleted leaves what it alone named.
    "orphans": (
        "key", {**KEY, **EXPIRING},
        (EPOCHS, TAG, BRANCH, UNTAG, EPOCH, DRAIN, EXPIRE, UNBRANCH, RESTART, EPOCH, SWEEP),
        ("sweeper",),
    ),
    "back": ("key", KEY, (EPOCHS, TAG, BRANCH, EPOCH, ROLL_BACK, EPOCH), ("restorer",)),
    "back to what has expired": (
        "key", {**KEY, **KEEPING}, (EPOCHS, TAG, EPOCHS, EXPIRE, EPOCH, ROLL_BACK, EPOCH),
        ("restorer",),
    ),
}  # fmt: skip
"""Those whose operations are struck stand last."""
WORKERS = ("job", "job/task", "job/compaction")
LIFTED = {
    "moves": ("cross partition", {**KEY, **ACROSS}, LIFTING, WORKERS),
    "sums by lookup": ("lookup", {**LOOKUP, **SUMS}, LIFTING, WORKERS),
    "first rows": ("lookup", {**LOOKUP, **FIRST}, LIFTING, WORKERS),
    "parts with vectors": ("deletion vectors", {**KEY, **PARTIAL, **VECTORS}, LIFTING, WORKERS),
    "whole changelog": (
        "full compaction", {**KEY, "changelog-producer": "full-compaction"}, LIFTING, WORKERS,
    ),
}  # fmt: skip
"""What compactions lift and tell; and what moves to other partitions."""
POSTPONING = {"bucket": "-2", "postpone.default-bucket-num": "2"}
MOVED = {
    "postponed rows": (
        "postponed buckets", {**KEY, **POSTPONING}, (EPOCHS, MOVE, EPOCH, MOVE),
        ("compactor", "compactor/compaction"),
    ),
    "buckets": ("key", KEY, (EPOCHS, RESCALE, EPOCH, RESCALE, EPOCH), ("rescaler",)),
    "buckets with vectors": (
        "deletion vectors", {**LOOKUP, **VECTORS}, (EPOCHS, RESCALE, EPOCH), ("rescaler",),
    ),
}  # fmt: skip
"""Rows that get other buckets, and keep their order."""
IN_TURN = ("bucketed append", "buckets as keys come", "expiring", "emptied", "emptied append")
"""Histories whose steps are those of others here, which meet each fault at each of them."""
BEGINS_AS = {"emptied": "key", "emptied append": "append"}
"""Histories whose first operations are those of another one, which strikes them."""

FAULTS = [
    FaultKind.DIES_AFTER, FaultKind.POWER_AFTER, FaultKind.LOST, FaultKind.HALF, FaultKind.OUTAGE,
]  # fmt: skip


def history(name: str) -> Scenario:
    """Some epochs, with what else is done between them."""
    histories: dict[str, Any] = {**HISTORIES, **UPKEEP, **LIFTED, **MOVED}
    kind, options, steps, *_ = histories[name]
    rounds = tuple(Round(f"r{index}", index, (step,), ()) for index, step in enumerate(steps))
    return Scenario(1, kind, options, DROP in steps or KINDS[kind].crosses, rounds)


def changes_files(operation: str) -> bool:
    return GROUPS[operation] is not Group.READ


def strike(
    name: str,
    strides: Strides,
    faults: Sequence[FaultKind],
    actors: Collection[str] | None = None,
) -> int:
    """Strike the chosen operations of these processes with the faults in turn; how many it were."""
    tried_scenario = history(name)
    untouched_outcome = run(tried_scenario)
    assert untouched_outcome.failure is None
    turns = itertools.cycle(faults)
    candidates, count = -1, 0
    for index in range(operations_shared(name, untouched_outcome), untouched_outcome.end_of_rounds):
        operation, actor = untouched_outcome.operations[index], untouched_outcome.actors[index]
        if actors is not None and actor not in actors:
            continue
        if changes_files(operation):
            fault = next(turns)
            # Of anything but a commit it is a lost answer, and a failure when it is tried again.
            is_struck = fault is not FaultKind.OUTAGE or operation == "create_if_absent"
        else:
            # After reading, the machine's death is the process's, and a failure is above. A
            # dead process leaves what it changed before, whatever it has read since its turn began.
            # Upkeep leaves what it has changed before.
            fault = FaultKind.DIES_AFTER
            is_others_turn_over = index == 0 or untouched_outcome.actors[index - 1] != actor
            is_struck = fault in faults and actors is None and is_others_turn_over
        candidates += is_struck
        if is_struck and (fault is FaultKind.OUTAGE or strides.has(candidates)):
            outcome = run(tried_scenario, strikes=(index, fault))
            assert outcome.failure is None, (index, operation, fault, outcome.failure)
            assert outcome.struck == 1
            count += 1
    return count


def operations_shared(name: str, untouched_outcome: Outcome) -> int:
    """Return the number of operations with which this history begins like another one."""
    if name not in BEGINS_AS:
        return 0
    other_run = run(history(BEGINS_AS[name]))
    same = 0
    while (other_run.operations[same], other_run.actors[same]) == (
        untouched_outcome.operations[same],
        untouched_outcome.actors[same],
    ):
        same += 1
    return same


@pytest.mark.parametrize("name", list(HISTORIES))
def test_the_history_does_all_that_can_fail(name: str) -> None:
    outcome = run(history(name))
    assert outcome.failure is None, outcome.failure
    assert outcome.snapshots >= 4
    for operation in ("open_output", "sync", "write_bytes", "create_if_absent", "overwrite"):
        assert operation in outcome.operations
    if name == "expiring":
        assert "delete" in outcome.operations[: outcome.end_of_rounds]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", [name for name in HISTORIES if name not in IN_TURN])
def test_whatever_operation_is_struck_the_table_is_whole(
    name: str, fault: FaultKind, strides: Strides
) -> None:
    assert strike(name, strides, [fault]) > 0


@pytest.mark.parametrize(("first", "name"), list(enumerate(IN_TURN)))
def test_whatever_operation_of_like_steps_is_struck_the_table_is_whole(
    first: int, name: str, strides: Strides
) -> None:
    assert strike(name, strides, FAULTS[first:] + FAULTS[:first]) > 20 // strides.length


@pytest.mark.parametrize(("first", "name"), list(enumerate(UPKEEP)))
def test_whatever_operation_of_upkeep_is_struck_the_table_is_whole(
    first: int, name: str, seed: int, strides: Strides
) -> None:
    """The verbs share the steps that delete and create; the seed chooses the first fault."""
    first = (first + seed) % 3
    assert strike(name, strides, FAULTS[first:3] + FAULTS[:first], UPKEEP[name][-1]) > 0


@pytest.mark.parametrize(("first", "name"), list(enumerate(LIFTED)))
def test_whatever_operation_of_a_lifting_epoch_is_struck_the_table_is_whole(
    first: int, name: str, strides: Strides
) -> None:
    """They share the steps of "key", which meets each fault at each; here one has its turn."""
    faults = FAULTS[first % 3 : 3] + FAULTS[: first % 3]
    assert strike(name, strides, faults, WORKERS) > 30 // strides.length


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", list(MOVED))
def test_whatever_operation_of_a_move_is_struck_no_row_is_lost_or_double(
    name: str, fault: FaultKind, strides: Strides
) -> None:
    least = 0 if fault is FaultKind.OUTAGE else 10 // strides.length
    assert strike(name, strides, [fault], MOVED[name][-1]) > least


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("tags", {"create_if_absent", "delete"}),
        ("a consumer", {"overwrite", "delete"}),
        ("changelogs", {"create_if_absent", "delete", "overwrite"}),
        ("flushed changelogs", {"create_if_absent", "delete", "overwrite"}),
        ("deleted rows", {"write_bytes", "create_if_absent"}),
        ("a partition", {"write_bytes", "create_if_absent"}),
        ("orphans", {"delete"}),
        ("back", {"create_if_absent", "delete", "overwrite"}),
    ],
)
def test_upkeep_does_what_can_fail(name: str, operations: set[str]) -> None:
    outcome = run(history(name))
    done = zip(outcome.operations, outcome.actors, strict=True)
    struck = {operation for operation, actor in done if actor in UPKEEP[name][-1]}
    assert struck >= operations


def test_a_version_that_has_expired_is_gone_back_to() -> None:
    lines = run(history("back to what has expired"), keeps_lines=True).lines
    restored_lines = [
        line for line in lines if line.startswith("restorer create_if_absent /t/snapshot")
    ]
    assert len(restored_lines) == 1
