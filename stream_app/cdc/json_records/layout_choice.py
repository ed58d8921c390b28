"""Chooses the layout with which machine code parses messages of a shape, and how long to skip it.

Called by the compiled ways of Debezium's records and of the dialects' messages. Each makes the
layouts of its own shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from stream_app.arrow_buffers import Bools
from stream_app.cdc.json_message import quick_document
from stream_app.cdc.json_records.record_shapes import RecordShape

if TYPE_CHECKING:
    from stream_app.cdc.compiled.image_columns import ImageLayout

_REST_SLICES = 16


@dataclass(slots=True)
class LayoutChoice:
    """The layout of the last shape.

    Attributes:
        layout_class: makes layouts.
    """

    layout_class: type[ImageLayout]
    _shape: RecordShape | None = field(default=None, init=False)
    _layout: ImageLayout | None = field(default=None, init=False)
    _rests: int = field(default=0, init=False)

    def layout_of(
        self, shape: RecordShape, make: Callable[[], ImageLayout | None]
    ) -> ImageLayout | None:
        """Return the layout for a slice of messages; None if machine code does not parse it.

        Args:
            make: makes the layout of this shape; called if the shape has changed.
        """
        if shape is not self._shape:
            # The shape comes last: when `make` fails, the next slice asks again.
            self._layout, self._rests, self._shape = make(), 0, shape
        if self._rests:
            self._rests -= 1
            return None
        return self._layout

    def parsed_most(self, parsed: Bools | None) -> bool:
        """Return whether most messages of a slice were parsed; otherwise other ways parse the next
        slices.

        Args:
            parsed: bool [n]; None if the whole slice was declined.
        """
        if parsed is not None and 2 * np.count_nonzero(parsed) >= len(parsed):
            return True
        self._rests = _REST_SLICES
        return False


def objects_in(values: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the JSON objects among the values, because a sample may contain other values."""
    documents = map(quick_document, values)
    return [document for document in documents if isinstance(document, dict)]
