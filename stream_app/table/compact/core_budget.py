"""Adds up the cores that the compactions of a job's tables need.

A job has one budget. Each table's `AutoPolicy` notes its needs after an epoch, and shows the advice
beside its rules. The job logs a warning about it. `planning.compact.core_advice` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.planning.compact.core_advice import CoreAdvice, core_advice

Need = Callable[[int], float]
"""The cores that a table keeps busy, with epochs so many times as long."""
_NEAR = 0.1
"""The part by which a need must change for other advice."""


@dataclass(slots=True)
class CoreBudget:
    """A comparison of the cores for compactions with the needs of all tables.

    Attributes:
        cores: the number of compactions that may run at a time, each on one core.
        advice: the advice for the noted needs; None before the first need.
    """

    cores: int
    advice: CoreAdvice | None = field(init=False, default=None)
    _needs: dict[str, tuple[Need, float]] = field(init=False, default_factory=dict)
    _total: float = field(init=False, default=0.0)

    def note(self, table: str, need: Need, interval_s: float) -> None:
        """Note a table's need, which replaces its previous one."""
        cores = need(1)
        self._total += cores - self._needs.get(table, (need, 0.0))[1]
        self._needs[table] = need, cores
        advice = self.advice
        if advice is None or abs(self._total - advice.cores_needed) > _NEAR * advice.cores_needed:
            self.advice = core_advice(self._sum, self.cores, interval_s)

    def _sum(self, longer: int) -> float:
        return sum(need(longer) for need, _ in self._needs.values())
