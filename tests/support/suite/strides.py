"""Chooses the operations of a history at which a test injects a fault."""

from __future__ import annotations

from dataclasses import dataclass

_OPERATIONS_MAX = 1000


@dataclass(frozen=True)
class Strides:
    """Some operations of a history, from one that the seed chooses, at equal distances.

    Seeds 0 to ``length - 1`` together choose each operation.
    """

    length: int
    seed: int

    def operations(self, step: int = 1) -> range:
        """Return the chosen numbers among 0, ``step``, 2 x ``step`` and so on."""
        return range(self.seed % self.length * step, _OPERATIONS_MAX, self.length * step)

    def has(self, number: int) -> bool:
        """Return whether the number is chosen."""
        return number % self.length == self.seed % self.length
