"""Draws a scenario from a seed: a table, rounds of actions that run at the same time, and faults.

A scenario is data, whose parts have names (``r3`` a round, ``r3a1`` an action, ``r3f0`` a fault).
To shrink or repeat a failing scenario, leave out parts by their names.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tests.simulation.faults import Fault, FaultKind, Group
from tests.simulation.kinds import KINDS, drawn_kind, drawn_options

Change = tuple[str, dict[str, Any]]
ROUNDS = (3, 6)
FATES = tuple(kind for kind in FaultKind if kind is not FaultKind.DENIED)
ANSWERS = (FaultKind.DENIED, FaultKind.LOST, FaultKind.OUTAGE, FaultKind.SLOW)
"""What makes an outcome unknown, or a race closer: the fates that matter to a snapshot."""


class Verb(Enum):
    """The action of an actor in a round."""

    EPOCH = "epoch"
    EMPTYING = "an epoch with a TRUNCATE"
    TWIN = "twin"  # an epoch, while a process that was believed dead does the same one
    IDLE = "idle"
    DRAIN = "drain"
    WHOLE = "whole"
    RESTART = "restart"
    READ = "read"
    EXPIRE = "expire"
    DELETE = "delete a row"  # as another engine does it, by a deletion vector
    TAG = "tag"
    UNTAG = "delete a tag"
    TAG_UPKEEP = "tag by the options"
    FOLLOW = "follow"
    DROP = "drop a partition"
    DROP_OLD = "drop old partitions"
    RESCALE = "rescale the partitions"
    SWEEP = "sweep orphans"
    ROLL_BACK = "roll the table back"
    BRANCH = "make a branch"  # as Paimon does it, before all others of the round
    UNBRANCH = "delete a branch"
    FORGET = "forget the consumer"


COMMITTING = frozenset(
    {
        Verb.EPOCH, Verb.TWIN, Verb.IDLE, Verb.DRAIN, Verb.WHOLE, Verb.DELETE, Verb.DROP,
        Verb.DROP_OLD, Verb.EMPTYING, Verb.RESCALE,
    }
)  # fmt: skip
"""Actions that must not run while the table is rolled back."""


@dataclass(frozen=True)
class Action:
    """Something that an actor does.

    Attributes:
        counts: of changes, one for each epoch.
    """

    name: str
    actor: str
    verb: Verb
    counts: tuple[int, ...] = ()

    def __str__(self) -> str:
        changes = f" of {', '.join(map(str, self.counts))} changes" if self.counts else ""
        return f"{self.name} {self.actor} {self.verb.value}{changes}"


@dataclass(frozen=True)
class Round:
    """Actions of different actors at the same time.

    Attributes:
        faults: by name.
        jump_ms: by how much the time of day jumps before.
    """

    name: str
    seed: int
    actions: tuple[Action, ...]
    faults: tuple[tuple[str, Fault], ...]
    jump_ms: int = 0

    @property
    def expires(self) -> bool:
        """Return whether the round expires snapshots."""
        return any(action.verb is Verb.EXPIRE for action in self.actions)

    @property
    def forgets(self) -> bool:
        """Return whether the round deletes the consumer."""
        return any(action.verb is Verb.FORGET for action in self.actions)

    def __str__(self) -> str:
        actions = "; ".join(map(str, self.actions))
        faults = "".join(f"\n    {name} {fault}" for name, fault in self.faults)
        jump = f"; the clock jumps by {self.jump_ms} ms" if self.jump_ms else ""
        return f"{self.name}: {actions}{jump}{faults}"


@dataclass(frozen=True)
class Scenario:
    """A run.

    Attributes:
        options: of the table.
    """

    seed: int
    kind: str
    options: dict[str, str]
    is_partitioned: bool
    rounds: tuple[Round, ...]

    @property
    def parts(self) -> list[str]:
        """Names of all that can be left out, the largest parts first."""
        rounds = [step.name for step in self.rounds]
        faults = [name for step in self.rounds for name, _ in step.faults]
        actions = [action.name for step in self.rounds for action in step.actions]
        return [*reversed(rounds), *faults, *actions]

    def without(self, names: Collection[str]) -> Scenario:
        """This without some parts."""
        rounds = tuple(
            replace(
                step,
                actions=tuple(action for action in step.actions if action.name not in names),
                faults=tuple((name, fault) for name, fault in step.faults if name not in names),
            )
            for step in self.rounds
            if step.name not in names
        )
        return replace(self, rounds=rounds)

    @property
    def has_key(self) -> bool:
        """Return whether the table has a primary key."""
        return KINDS[self.kind].has_key

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key."""
        if not self.has_key:
            return ()
        holds_partition = self.is_partitioned and not KINDS[self.kind].crosses
        return ("p", "k") if holds_partition else ("k",)

    @property
    def expires(self) -> bool:
        """Return whether snapshots may expire."""
        return "snapshot.num-retained.max" in self.options

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value}" for key, value in self.options.items())
        partition_text = ", partitioned" if self.is_partitioned else ""
        rounds = "".join(f"\n  {step}" for step in self.rounds)
        return f"seed {self.seed}: {self.kind} table{partition_text} with {options}{rounds}"


def of_jobs(seed: int) -> Scenario:
    """The scenario of a seed without the processes that `seeds` adds to the jobs."""
    rng = random.Random(seed)
    kind = drawn_kind(rng)
    rivals = rng.choice([[], ["rival"], ["compactor"], ["rival", "compactor"]])
    if KINDS[kind].waits:
        rivals = sorted({*rivals, "compactor"})
    if rng.random() < 0.3:
        rivals = [*rivals, "expirer"]
    is_calm = rng.random() < 0.1
    rounds = []
    for number in range(rng.randint(*ROUNDS)):
        name = f"r{number}"
        actions = _actions(rng, name, rivals)
        faults = () if is_calm else _faults(rng, name, actions)
        jump = 0 if is_calm or rng.random() < 0.8 else rng.choice([-3_600_000, -5, 86_400_000])
        rounds.append(Round(name, rng.getrandbits(32), actions, faults, jump))
    options = drawn_options(rng, kind)
    if "expirer" in rivals:
        options |= {
            "snapshot.num-retained.min": "1",
            "snapshot.num-retained.max": rng.choice(["1", "2", "4"]),
        }
    is_partitioned = rng.random() < 0.3 or KINDS[kind].crosses
    return Scenario(seed, kind, options, is_partitioned, tuple(rounds))


def _actions(rng: random.Random, name: str, rivals: list[str]) -> tuple[Action, ...]:
    verbs = [
        ("job", rng.choices([Verb.EPOCH, Verb.TWIN, Verb.IDLE, Verb.DRAIN, Verb.RESTART],
                            [12, 2, 2, 1, 1])[0])
    ]  # fmt: skip
    if "rival" in rivals and rng.random() < 0.6:
        verbs.append(("rival", rng.choice([Verb.EPOCH, Verb.EPOCH, Verb.EPOCH, Verb.IDLE])))
    if "compactor" in rivals and rng.random() < 0.5:
        verbs.append(("compactor", rng.choice([Verb.DRAIN, Verb.WHOLE])))
    if "expirer" in rivals and rng.random() < 0.6:
        verbs.append(("expirer", Verb.EXPIRE))
    if rng.random() < 0.15:
        verbs.append(("reader", Verb.READ))
    return tuple(
        Action(f"{name}a{number}", actor, verb, _counts(rng, verb))
        for number, (actor, verb) in enumerate(verbs)
    )


def _counts(rng: random.Random, verb: Verb) -> tuple[int, ...]:
    epochs = {Verb.EPOCH: rng.choice([1, 1, 2, 3]), Verb.TWIN: 1}.get(verb, 0)
    return tuple(rng.choice([0, 2, 2, 6]) for _ in range(epochs))


def _faults(
    rng: random.Random, name: str, actions: tuple[Action, ...]
) -> tuple[tuple[str, Fault], ...]:
    faults = []
    for number in range(rng.choice([0, 1, 1, 2, 3])):
        actor = rng.choice(actions).actor
        role = rng.choice([actor, actor, f"{actor}/task", f"{actor}/compaction"])
        group = rng.choice([Group.ANY, *Group])
        reach = {Group.ANY: 30, Group.CREATE: 2, Group.READ: 20}.get(group, 5)
        kind = rng.choice(ANSWERS if group is Group.CREATE and rng.random() < 0.5 else FATES)
        faults.append((f"{name}f{number}", Fault(role, group, rng.randrange(reach), kind)))
    return tuple(faults)
