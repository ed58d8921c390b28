"""What the doctor has seen of one thing."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stream_app.errors import StreamAppError


class Level(enum.Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One line of the doctor.

    Attributes:
        part: what was looked at, such as ``java``.
        fix: the remedy; empty: none is needed.
    """

    part: str
    level: Level
    what: str
    fix: str = ""

    def lines(self) -> Iterator[str]:
        """The line, and the remedy below it."""
        yield f"{self.level.value:<8} {self.part:<11} {self.what}"
        if self.fix:
            yield f"{'':<8} {'':<11} to fix: {self.fix}"


def fine(part: str, what: str) -> Observation:
    """Nothing is wrong."""
    return Observation(part=part, level=Level.OK, what=what)


def warning(part: str, what: str, fix: str) -> Observation:
    """A job runs, and may come to harm."""
    return Observation(part=part, level=Level.WARNING, what=what, fix=fix)


def problem(part: str, what: str, fix: str) -> Observation:
    """A job does not run."""
    return Observation(part=part, level=Level.PROBLEM, what=what, fix=fix)


def observed(part: str, look: Callable[[], Iterator[Observation]]) -> Iterator[Observation]:
    """What a look yields; its error is a problem."""
    try:
        yield from look()
    except StreamAppError as error:
        where = f" ({error.where})" if error.where else ""
        yield problem(part, f"{error.what}{where}", error.fix)
    except OSError as error:
        yield problem(part, str(error), "see that the path exists and that this user may write it")
