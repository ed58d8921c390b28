"""Defines a goal: a measured figure beside its bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """A measured figure and its bound, in the unit that the name contains.

    Attributes:
        measured_value: None if it could not be measured, which misses the goal.
    """

    name: str
    measured_value: float | None
    bound: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        if self.measured_value is None:
            return False
        return (
            self.measured_value >= self.bound
            if self.at_least
            else self.measured_value <= self.bound
        )

    def line(self) -> str:
        sign = "≥" if self.at_least else "≤"
        measured_text = (
            "not measured" if self.measured_value is None else f"{self.measured_value:.3g}"
        )
        verdict = "met" if self.is_met else "missed"
        return f"| {self.name} | {measured_text} | {sign} {self.bound:g} | {verdict} |"
