"""Decides whether compactions have enough cores, and for which length of epochs they would.

`table.compact.core_budget` calls it after epochs, with simulated bytes. The job follows the user's
trigger or freshness in any case: longer epochs are advice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

LENGTH_FACTORS = (1, 2, 4, 8, 16, 32, 64)
"""The factors by which longer epochs are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreAdvice:
    """The cores that compactions have and need.

    Attributes:
        cores: the cores on which they may run.
        cores_needed: the cores that they keep busy at the present pace.
        interval_s: the seconds from epoch to epoch.
        length_factor: the factor by which epochs must be longer. It is 1 if the cores suffice, and
            None if no factor of `LENGTH_FACTORS` helps.
    """

    cores: int
    cores_needed: float
    interval_s: float
    length_factor: int | None

    @property
    def suffices(self) -> bool:
        """Whether compactions keep up with epochs of the present length."""
        return self.length_factor == 1

    @property
    def need(self) -> str:
        """The need and the bound, as text."""
        return f"compactions need {self.cores_needed:.1f} of {self.cores} cores"

    @property
    def fix(self) -> str:
        """The remedy if the cores do not suffice."""
        more = "give stream.compaction-cores more cores"
        if self.length_factor is None:
            return f"{more}, because epochs {LENGTH_FACTORS[-1]} times as long would not suffice"
        seconds = math.ceil(self.interval_s * self.length_factor)
        return (
            f"make epochs {seconds} s long, with which they fit (stream.trigger, or a longer "
            f"stream.freshness), or {more}"
        )

    def text(self) -> str:
        """Return the need, with the remedy if there is a problem."""
        return self.need if self.suffices else f"{self.need}: {self.fix}"


def core_advice(cores_needed: Callable[[int], float], cores: int, interval_s: float) -> CoreAdvice:
    """Return the advice for a job.

    Args:
        cores_needed: returns the cores that compactions keep busy if epochs are longer by a factor.
    """
    return CoreAdvice(
        cores=cores,
        cores_needed=cores_needed(1),
        interval_s=interval_s,
        length_factor=next(
            (factor for factor in LENGTH_FACTORS if cores_needed(factor) <= cores), None
        ),
    )
