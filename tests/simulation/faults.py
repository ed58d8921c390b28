"""The faults that a simulated file operation may have, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class InjectedError(OSError):
    """The error of a failing operation."""


class FaultKind(Enum):
    """The fate of an operation, and of the process that asked for it."""

    FAILS = "fails"  # nothing is done
    HALF = "half"  # a part is done
    LOST = "lost"  # all is done, and reported as a failure
    DENIED = "denied"  # create_if_absent creates, and says that there was one (a client's retry)
    OUTAGE = "begins an outage"  # it is done, and nobody hears of it, nor of what comes next
    SLOW = "slow"  # others do much meanwhile
    DIES_BEFORE = "dies before"  # the process that asked is gone
    DIES_AFTER = "dies after"
    POWER_BEFORE = "power before"  # the machine is gone, and what was not synced with it
    POWER_AFTER = "power after"


DEADLY = frozenset(
    {
        FaultKind.DIES_BEFORE, FaultKind.DIES_AFTER, FaultKind.POWER_BEFORE,
        FaultKind.POWER_AFTER,
    }
)  # fmt: skip


class Group(Enum):
    """The operations that a fault counts."""

    ANY = "any"
    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"


GROUPS = {
    "open_input": Group.READ,
    "read_bytes": Group.READ,
    "list_names": Group.READ,
    "list_status": Group.READ,
    "exists": Group.READ,
    "size": Group.READ,
    "open_output": Group.WRITE,
    "sync": Group.WRITE,
    "write_bytes": Group.WRITE,
    "overwrite": Group.WRITE,
    "create_if_absent": Group.CREATE,
    "delete": Group.DELETE,
    "delete_empty_folder": Group.DELETE,
}


@dataclass(frozen=True)
class Fault:
    """Strikes at operation `number` of a group, from 0, in processes of a role, in a round.

    Attributes:
        role: such as ``job``, ``job/task``, ``job/compaction``.
    """

    role: str
    group: Group
    number: int
    kind: FaultKind

    def __str__(self) -> str:
        return f"{self.role}: {self.group.value} operation {self.number} {self.kind.value}"
