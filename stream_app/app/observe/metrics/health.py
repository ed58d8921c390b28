"""Decides whether a job is alive and its tables are fresh, from recorded facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.clock import Clock

SILENCE_S = 120.0
"""The time without a check of the stream after which a job hangs; it checks five times a second."""
POLL_S = 60.0
"""Longest interval, beside the trigger, at which the stream reports how far the source is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """How far a job's tables are behind their source.

    Attributes:
        stale_s: the age of the stalest table's data, or None if unknown.
        looked_s: seconds since the stream last reported its position, or None before the first
            report.
        lag: messages that are not committed yet, or None if unknown.
        is_committed: whether this run has committed an epoch.
    """

    stale_s: float | None
    looked_s: float | None
    lag: int | None
    is_committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMoment:
    """The facts about a job at one moment.

    Attributes:
        phase: ``starting``, ``running`` or ``ending``.
        silent_s: seconds since the job checked its stream.
        held: table → the error that holds it back.
    """

    phase: str
    silent_s: float
    source: SourceState
    held: Mapping[str, str]


def alive_problems(state: JobMoment) -> list[str]:
    """Return the reasons to restart the process; empty if the process is alive."""
    if state.phase == "running" and state.silent_s > SILENCE_S:
        return [f"the job has not checked its stream for {state.silent_s:.0f} s"]
    return []


def staleness_problems(state: SourceState, max_staleness_s: float, trigger_s: float) -> list[str]:
    """Return reasons why the tables may be behind; see `ready_problems`."""
    problems = []
    if state.looked_s is None:
        problems.append("the job has not checked the source yet")
    elif state.looked_s > max(max_staleness_s, trigger_s + POLL_S):
        problems.append(
            f"the job has not checked the source for {state.looked_s:.0f} s: an epoch takes long, "
            "or the broker does not answer"
        )
    if state.stale_s is not None and state.stale_s > max_staleness_s:
        problems.append(
            f"a table is {state.stale_s:.0f} s behind its source; stream.max-staleness is "
            f"{max_staleness_s:.0f} s"
        )
    if state.lag and not state.is_committed:
        problems.append(f"{state.lag} messages wait, and no epoch is committed yet")
    return problems


def ready_problems(state: JobMoment, max_staleness_s: float, trigger_s: float) -> list[str]:
    """Return the reasons why the tables are not reliable; empty if they are fresh.

    Args:
        max_staleness_s: the seconds of ``stream.max-staleness``.
        trigger_s: seconds between two checks of the source.
    """
    problems = alive_problems(state)
    if state.phase == "running":
        problems += staleness_problems(state.source, max_staleness_s, trigger_s)
    else:
        problems.append(f"the job is {state.phase}")
    problems += [f"{name} is held back: {reason}" for name, reason in sorted(state.held.items())]
    return problems


@dataclass(slots=True)
class JobHealth:
    """The facts that the job reports. Thread-safe.

    Attributes:
        max_staleness_s: seconds that a ready table may be behind.
        source: how far the job is behind its source.
        trigger_s: seconds between two checks of the source.
        hide: replaces the configuration's secrets in a text.
    """

    clock: Clock
    max_staleness_s: float
    source: Callable[[], SourceState]
    trigger_s: float = 0.0
    hide: Callable[[str], str] = str
    phase: str = "starting"
    held: dict[str, str] = field(default_factory=dict)
    _looked_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._looked_at = self.clock.steady_seconds()

    def note_heartbeat(self, is_running: bool) -> None:
        """Record that the job has checked its query; `is_running` is False at the last check."""
        self.phase = "running" if is_running else "ending"
        self._looked_at = self.clock.steady_seconds()

    def alive(self) -> Sequence[str]:
        """See `alive_problems`."""
        return alive_problems(self._state())

    def ready(self) -> Sequence[str]:
        """See `ready_problems`."""
        problems = ready_problems(self._state(), self.max_staleness_s, self.trigger_s)
        return [self.hide(problem) for problem in problems]

    def _state(self) -> JobMoment:
        return JobMoment(
            phase=self.phase,
            silent_s=self.clock.steady_seconds() - self._looked_at,
            source=self.source(),
            held=dict(self.held),
        )
