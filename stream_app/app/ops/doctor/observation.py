"""Observations of the doctor, with their severity and remedy."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stream_app.clock import Clock
from stream_app.errors import StreamAppError

_CLOCK_DIFFERENCE_MAX_S = 5.0


class Severity(enum.Enum):
    """The severity of an observation."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One line of the doctor.

    Attributes:
        subject: what the doctor examines, such as ``java``.
        text: the observed facts.
        fix: the remedy; empty if none is needed.
    """

    subject: str
    severity: Severity
    text: str
    fix: str = ""

    def lines(self) -> Iterator[str]:
        """Yield the observation's line, and its remedy as a second line."""
        yield f"{self.severity.value:<8} {self.subject:<11} {self.text}"
        if self.fix:
            yield f"{'':<8} {'':<11} to fix: {self.fix}"


def good_observation(subject: str, text: str) -> Observation:
    """Return an observation that needs no remedy."""
    return Observation(subject=subject, severity=Severity.OK, text=text)


def warning_observation(subject: str, text: str, fix: str) -> Observation:
    """Return an observation of a risk, with which a job can run."""
    return Observation(subject=subject, severity=Severity.WARNING, text=text, fix=fix)


def problem_observation(subject: str, text: str, fix: str) -> Observation:
    """Return an observation of an obstacle, with which a job cannot run."""
    return Observation(subject=subject, severity=Severity.PROBLEM, text=text, fix=fix)


def guarded_observations(
    subject: str, check: Callable[[], Iterator[Observation]]
) -> Iterator[Observation]:
    """Yield the observations of a check, and turn its error into a problem."""
    try:
        yield from check()
    except StreamAppError as error:
        where = f" ({error.where})" if error.where else ""
        yield problem_observation(subject, f"{error.problem}{where}", error.fix)
    except OSError as error:
        yield problem_observation(
            subject, str(error), "see that the path exists and that this user may write it"
        )


def clock_observations(
    subject: str, owner: str, time_ms: int, clock: Clock, *, may_be_behind: bool = False
) -> Iterator[Observation]:
    """Yield whether a time and this machine's clock are at most five seconds apart.

    Args:
        owner: the machine or message whose time this is, as text.
        time_ms: the other time in ms since 1970, in UTC.
        may_be_behind: whether it is the time of a message, which may be old.
    """
    difference_s = (time_ms - clock.now_ms()) / 1000
    if difference_s > _CLOCK_DIFFERENCE_MAX_S or (
        difference_s < -_CLOCK_DIFFERENCE_MAX_S and not may_be_behind
    ):
        direction = "ahead of" if difference_s > 0 else "behind"
        yield warning_observation(
            subject,
            f"the time of {owner} is {abs(difference_s):.0f} s {direction} this machine's clock",
            "let both machines follow a time server: expiry, tags and freshness go by these times",
        )
    elif may_be_behind:
        yield good_observation(subject, f"the time of {owner} is not ahead of this machine's clock")
    else:
        yield good_observation(subject, f"the time of {owner} agrees with this machine's clock")
