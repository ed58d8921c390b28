"""The port that finds the images of rows in a parsed message, for searches of any format.

Each format of JSON has an `ImagesOf`. `record_shapes` learns kinds from the images, `drift_search`
the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.cdc.column_drift import Drift, drift_of

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DocumentImages:
    """The images of a message's rows, by field.

    Attributes:
        befores, afters: in the order of the message.
        names: how many names of fields stand in the message and its images.
        is_flat: whether the message itself is the image.
        ignored: how fields begin that are no columns; None: all are.
    """

    befores: tuple[Fields, ...]
    afters: tuple[Fields, ...]
    names: int
    is_flat: bool = False
    ignored: str | None = None

    def drift(self, columns: frozenset[str]) -> Drift:
        """The columns by which the images differ from a table of these columns."""
        before: set[str] = set().union(*self.befores)
        if len(self.afters) <= 1:
            after = next(iter(self.afters), None)
        else:
            before = before.union(*self.afters)
            after = dict.fromkeys(set(self.afters[0]).intersection(*self.afters[1:]))
        return drift_of(columns, before, after, ignored=self.ignored)


ImagesOf = Callable[[dict[str, Any]], DocumentImages | None]
"""The images of a message; None: it is no change of rows. Objects alone are images."""
