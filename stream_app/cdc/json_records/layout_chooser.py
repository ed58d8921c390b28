"""Chooses the layout with which machine code parses messages of a shape, and how long to skip it.

The compiled ways of Debezium's records and of the dialects' messages call it. Each way makes the
layouts of its own shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stream_app.cdc.json_message import quick_document
from stream_app.cdc.json_records.record_shapes import RecordShape

if TYPE_CHECKING:
    from stream_app.cdc.compiled.image_columns import ImageColumns, ImageLayout, ParsedRows

ParsedT = TypeVar("ParsedT", "ImageColumns", "ParsedRows")

_SKIPPED_SLICE_COUNT = 16
"""Slices without machine code after it declined most messages of a slice."""


@dataclass(slots=True)
class LayoutChooser:
    """The layout that parses a stream of slices; it pauses machine code that declines too many.

    Attributes:
        layout_class: the class of the layouts.
    """

    layout_class: type[ImageLayout]
    _shape: RecordShape | None = field(default=None, init=False)
    _layout: ImageLayout | None = field(default=None, init=False)
    _slices_to_skip: int = field(default=0, init=False)

    def take_layout(
        self, shape: RecordShape, make: Callable[[], ImageLayout | None]
    ) -> ImageLayout | None:
        """Take the layout for a slice of messages; None if machine code does not parse it.

        Args:
            make: makes the layout of this shape; called if the shape has changed.
        """
        if shape is not self._shape:
            # The shape comes last: when `make` fails, the next slice asks again.
            self._layout, self._slices_to_skip, self._shape = make(), 0, shape
        if self._slices_to_skip:
            self._slices_to_skip -= 1
            return None
        return self._layout

    def accept_parsed(self, messages: ParsedT | None) -> ParsedT | None:
        """Accept the messages that machine code parsed of a slice.

        If they are less than half of the slice, begin a pause, and return None.

        Args:
            messages: None if machine code declined the whole slice.
        """
        if messages is not None and 2 * np.count_nonzero(messages.is_parsed) >= len(
            messages.is_parsed
        ):
            return messages
        self._slices_to_skip = _SKIPPED_SLICE_COUNT
        return None


def objects_in(values: Iterable[bytes]) -> list[dict[str, Any]]:
    """Return the JSON objects among the values, because a sample may contain other values."""
    documents = map(quick_document, values)
    return [document for document in documents if isinstance(document, dict)]
