"""Adds up the cores that the compactions of a job's tables need.

A job has one budget. Each table's `AutoPolicy` notes its needs after an epoch, and shows the advice
beside its rules. The job logs a warning about it. `planning.compact.core_advice` decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stream_app.planning.compact.core_advice import CoreAdvice, core_advice

Need = Callable[[int], float]
"""Returns the cores that a table's compactions need if its epochs become longer by a factor."""
_CHANGE_MIN = 0.1
"""The share by which the total need must change before the advice is computed again."""


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
    _total_cores: float = field(init=False, default=0.0)

    def note(self, table_name: str, need: Need, interval_s: float) -> None:
        """Note a table's need, which replaces its previous one."""
        cores = need(1)
        self._total_cores += cores - self._needs.get(table_name, (need, 0.0))[1]
        self._needs[table_name] = need, cores
        advice = self.advice
        if (
            advice is None
            or abs(self._total_cores - advice.cores_needed) > _CHANGE_MIN * advice.cores_needed
        ):
            self.advice = core_advice(self._total_need, self.cores, interval_s)

    def _total_need(self, epoch_factor: int) -> float:
        return sum(need(epoch_factor) for need, _ in self._needs.values())
