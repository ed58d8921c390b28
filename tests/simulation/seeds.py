"""The scenario of a seed: its jobs, and the other processes that work on their table.

Jobs, compactors, readers and expirers are `scenario.of_jobs`. The processes that are added here
draw from a source of chance of their own, so that the jobs' actions and faults are as frequent as
without them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.simulation.faults import Fault, Group
from tests.simulation.kinds import KINDS, can_be_followed
from tests.simulation.scenario import FATES, Action, Round, Scenario, Verb, of_jobs

OLD_PARTITION, YOUNG_PARTITION = "2025-06-01", "2026-06-01"
"""Of which the first one is too old in every seed that drops old partitions."""

EMPTYING_SHARE = 0.05
RARE = ("restorer", "forgetter")
"""Processes of few rounds: what they take away must first be there."""

_VERBS: Mapping[str, Sequence[Verb]] = {
    "deleter": [Verb.DELETE],
    "tagger": [Verb.TAG, Verb.TAG, Verb.UNTAG],
    "follower": [Verb.FOLLOW],
    "dropper": [Verb.DROP, Verb.DROP_OLD],
    "rescaler": [Verb.RESCALE],
    "sweeper": [Verb.SWEEP],
    "restorer": [Verb.ROLL_BACK],
    "brancher": [Verb.BRANCH, Verb.BRANCH, Verb.UNBRANCH],
    "forgetter": [Verb.FORGET],
}
"""What each of them may do in a round."""


def scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    jobs = of_jobs(seed)
    rng = random.Random(f"{seed} others")
    options = _options(rng, jobs)
    actors = [actor for actor, chance in _chances(jobs).items() if rng.random() < chance]
    if "deleter" in actors:
        options |= {"deletion-vectors.enabled": "true"}
    if "tagger" in actors and rng.random() < 0.3:
        options |= {
            "tag.automatic-creation": "process-time",
            "tag.creation-period": "hourly",
            "tag.num-retained-max": rng.choice(["1", "2"]),
        }
    if "follower" in actors:
        options |= rng.choice([{"scan.mode": "latest-full"}, {"scan.snapshot-id": "1"}])
        if rng.random() < 0.3:
            actors.append("forgetter")
        if rng.random() < 0.3:
            options |= {"consumer.expiration-time": "1 h"}
    if "dropper" in actors:
        options |= {"partition.expiration-time": "90 d"}
    is_calm = not any(step.faults or step.jump_ms for step in jobs.rounds)
    truncates = random.Random(f"{seed} truncates")
    rounds = tuple(
        _with_truncates(truncates, _with_others(rng, step, actors, options, is_calm=is_calm))
        for step in jobs.rounds
    )
    return replace(jobs, options={**jobs.options, **options}, rounds=rounds)


def _chances(jobs: Scenario) -> dict[str, float]:
    """Return the probability of each process, which is larger where it has something to see."""
    return {
        "deleter": 0.0 if jobs.has_key else 0.45,
        "tagger": 0.4 if jobs.expires else 0.15,
        "follower": (0.4 if jobs.expires else 0.2) * can_be_followed(jobs.options),
        "dropper": 0.4 if jobs.is_partitioned else 0.0,
        "rescaler": 0.2 if KINDS[jobs.kind].has_bucket_number else 0.0,
        "sweeper": 0.15,
        "restorer": 0.35 if jobs.expires else 0.2,
        "brancher": 0.15,
    }


def _options(rng: random.Random, jobs: Scenario) -> dict[str, str]:
    options = {"file-operation.thread-num": rng.choice(["1", "3"])}
    if jobs.expires and rng.random() < 0.5:
        most = int(jobs.options["snapshot.num-retained.max"]) + rng.randint(1, 5)
        options |= {
            "changelog.num-retained.max": str(most),
            "changelog.num-retained.min": rng.choice(["1", "2"]),
        }
        if rng.random() < 0.5:
            options |= {"consumer.changelog-only": "true"}
    return options


def _with_others(
    rng: random.Random, step: Round, actors: list[str], options: dict[str, str], *, is_calm: bool
) -> Round:
    planned_parts = [
        (actor, _verb(rng, actor, options))
        for actor in actors
        if rng.random() < (0.3 if actor in RARE else 0.6)
    ]
    start = len(step.actions)
    actions = tuple(
        Action(f"{step.name}a{number}", actor, verb)
        for number, (actor, verb) in enumerate(planned_parts, start)
    )
    faults: tuple[tuple[str, Fault], ...] = ()
    if actions and not is_calm and rng.random() < 0.4:
        group = rng.choice([Group.ANY, *Group])
        reach = 30 if group in (Group.ANY, Group.READ) else 4
        actor = rng.choice(actions).actor
        if rng.random() < 0.5 and "restorer" in (action.actor for action in actions):
            actor = "restorer"
        fault = Fault(actor, group, rng.randrange(reach), rng.choice(FATES))
        faults = ((f"{step.name}f{len(step.faults)}", fault),)
    return replace(step, actions=(*step.actions, *actions), faults=(*step.faults, *faults))


def _with_truncates(rng: random.Random, step: Round) -> Round:
    """Some epochs of the job begin by emptying the table."""
    actions = tuple(
        replace(action, verb=Verb.EMPTYING)
        if (action.actor, action.verb) == ("job", Verb.EPOCH) and rng.random() < EMPTYING_SHARE
        else action
        for action in step.actions
    )
    return replace(step, actions=actions)


def _verb(rng: random.Random, actor: str, options: dict[str, str]) -> Verb:
    tags_by_options = actor == "tagger" and "tag.automatic-creation" in options
    return rng.choice([*_VERBS[actor], *([Verb.TAG_UPKEEP] if tags_by_options else [])])
