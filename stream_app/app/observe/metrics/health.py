"""Decides whether a job is alive and its tables are fresh, from recorded facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stream_app.clock import Clock

SILENCE_S = 120.0
"""The time without a check of the stream after which a job hangs. It checks five times a second."""
OFFSET_REPORT_S = 60.0
"""The longest time, in addition to the trigger, between two reports of the job's offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The distance of a job's tables behind their source.

    Attributes:
        staleness_s: the age of the stalest table's data, or None if unknown.
        look_age_s: seconds since the stream last reported its offsets, or None before the first
            report.
        lag: the number of messages that are not committed yet, or None if unknown.
        is_committed: whether this run has committed an epoch.
    """

    staleness_s: float | None
    look_age_s: float | None
    lag: int | None
    is_committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFacts:
    """The facts about a job at one moment.

    Attributes:
        phase: ``starting``, ``running`` or ``ending``.
        silence_s: seconds since the job checked its stream.
        held_reasons: table → the error that holds it back.
    """

    phase: str
    silence_s: float
    source_state: SourceState
    held_reasons: Mapping[str, str]


def alive_problems(health_facts: HealthFacts) -> list[str]:
    """Return the reasons to restart the process; empty if the process is alive."""
    if health_facts.phase == "running" and health_facts.silence_s > SILENCE_S:
        return [f"the job has not checked its stream for {health_facts.silence_s:.0f} s"]
    return []


def staleness_problems(
    source_state: SourceState, max_staleness_s: float, pause_s: float
) -> list[str]:
    """Return reasons why the tables of a running job may be behind their source.

    Args:
        max_staleness_s: the seconds of ``stream.max-staleness``.
        pause_s: seconds between two checks of the source.
    """
    problems = []
    if source_state.look_age_s is None:
        problems.append("the job has not checked the source yet")
    elif source_state.look_age_s > max(max_staleness_s, pause_s + OFFSET_REPORT_S):
        problems.append(
            f"the job has not checked the source for {source_state.look_age_s:.0f} s: an epoch "
            "takes long, or the broker does not answer"
        )
    if source_state.staleness_s is not None and source_state.staleness_s > max_staleness_s:
        problems.append(
            f"a table is {source_state.staleness_s:.0f} s behind its source; "
            f"stream.max-staleness is {max_staleness_s:.0f} s"
        )
    if source_state.lag and not source_state.is_committed:
        problems.append(f"{source_state.lag} messages wait, and no epoch is committed yet")
    return problems


def ready_problems(health_facts: HealthFacts, max_staleness_s: float, pause_s: float) -> list[str]:
    """Return the reasons why the tables are not reliable; empty if they are fresh.

    Args:
        max_staleness_s: the seconds of ``stream.max-staleness``.
        pause_s: seconds between two checks of the source.
    """
    problems = alive_problems(health_facts)
    if health_facts.phase == "running":
        problems += staleness_problems(health_facts.source_state, max_staleness_s, pause_s)
    else:
        problems.append(f"the job is {health_facts.phase}")
    problems += [
        f"{name} is held back: {reason}"
        for name, reason in sorted(health_facts.held_reasons.items())
    ]
    return problems


@dataclass(slots=True)
class JobHealth:
    """The facts about its health that a job reports. Thread-safe.

    Attributes:
        max_staleness_s: the seconds by which a ready table may be behind its source.
        read_source_state: returns the distance of the job's tables behind their source.
        pause_s: seconds between two checks of the source.
        hide: replaces the configuration's secrets in a text.
    """

    clock: Clock
    max_staleness_s: float
    read_source_state: Callable[[], SourceState]
    pause_s: float = 0.0
    hide: Callable[[str], str] = str
    phase: str = "starting"
    held_reasons: dict[str, str] = field(default_factory=dict)
    _checked_at_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._checked_at_s = self.clock.steady_seconds()

    def note_heartbeat(self, is_running: bool) -> None:
        """Record that the job has checked its stream; `is_running` is False at the last check."""
        self.phase = "running" if is_running else "ending"
        self._checked_at_s = self.clock.steady_seconds()

    def alive(self) -> Sequence[str]:
        """Return the reasons to restart the process; empty if the process is alive."""
        return alive_problems(self._facts())

    def ready(self) -> Sequence[str]:
        """Return the reasons why the tables are not reliable; empty if they are fresh."""
        problems = ready_problems(self._facts(), self.max_staleness_s, self.pause_s)
        return [self.hide(problem) for problem in problems]

    def _facts(self) -> HealthFacts:
        return HealthFacts(
            phase=self.phase,
            silence_s=self.clock.steady_seconds() - self._checked_at_s,
            source_state=self.read_source_state(),
            held_reasons=dict(self.held_reasons),
        )
