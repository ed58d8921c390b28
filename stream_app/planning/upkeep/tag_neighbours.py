"""Which versions are the nearest ones to a version that goes.

Source: Paimon `utils/TagManager.java#doClean`.
"""

from __future__ import annotations

from collections.abc import Iterable


def nearest_numbers(going: int, kept: Iterable[int]) -> list[int]:
    """The nearest number below and the nearest one above, as far as there are any."""
    numbers = sorted(kept)
    below = [number for number in numbers if number < going]
    above = [number for number in numbers if number > going]
    return below[-1:] + above[:1]
