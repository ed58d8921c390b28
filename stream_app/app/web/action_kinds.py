"""The actions of the page: their names and words, and which of them fit a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stream_app.app.ops.inspect.job_status import HELD

_SPARK = "It is a process of its own, with a Spark of its own: it takes memory beside the job."


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionKind:
    """One action.

    Attributes:
        name: in forms and addresses.
        does: what it does, for those that are about to confirm it.
        asks_name: whether it needs the name of a tag.
        mends: whether it may end the trouble of a table.
        opens: whether it needs a table that can be opened.
    """

    name: str
    title: str
    does: str
    asks_name: bool = False
    mends: bool = False
    opens: bool = True


RESUME = ActionKind(
    name="resume",
    title="Resume",
    does="The job tries the held table again within seconds, and gives it everything since it was "
    "held back. Mend the cause first: else the same error holds it again.",
    mends=True,
    opens=False,
)
TAG = ActionKind(
    name="tag",
    title="Tag the newest snapshot",
    does="A tag keeps the newest snapshot under a name until the tag is deleted.",
    asks_name=True,
)
COMPACT = ActionKind(
    name="compact",
    title="Compact what is due",
    does=f"Compacts the buckets whose sorted runs have reached the trigger. {_SPARK}",
)
COMPACT_FULL = ActionKind(
    name="compact-full",
    title="Compact each bucket whole",
    does=f"Rewrites every bucket as one sorted run, whatever its size. {_SPARK}",
)
REPLAY = ActionKind(
    name="replay",
    title="Replay the quarantine",
    does="Stores the records that wait in quarantine, by the rules of today. Those that are still "
    "bad stay in quarantine.",
)
ACTIONS = {one.name: one for one in (RESUME, TAG, COMPACT, COMPACT_FULL, REPLAY)}

HELD_TOLD = (
    "The job tries a held table again by itself while the cause may pass, and at each start. Where "
    "only a person can mend the cause, resume the table afterwards: here, or by stream-app resume."
)


def offered(state: str | None, *, can_open: bool, can_replay: bool) -> Sequence[ActionKind]:
    """The actions that fit a table, those that mend its trouble first.

    Args:
        state: of `job_status`; None: unknown.
    """
    actions = [RESUME] if state == HELD else []
    if can_open:
        actions += [TAG, COMPACT, COMPACT_FULL]
    if can_open and can_replay:
        actions.append(REPLAY)
    return actions
