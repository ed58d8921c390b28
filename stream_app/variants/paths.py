"""Finds a value inside of VARIANTs by a path, such as ``$.customer.phones[0]``.

Source: Paimon `data/variant/VariantPathSegment.java`.
"""

from __future__ import annotations

import re

from stream_app.variants import layout
from stream_app.variants.variant_reader import Variant

VariantPath = tuple[str | int, ...]
_STEP = re.compile(
    r"\.(?P<plain>[^.\[]+)|\[(?P<index>[0-9]+)\]|\['(?P<single>[^']+)'\]|\[\"(?P<double>[^\"]+)\"\]"
)


def parse_path(text: str) -> VariantPath:
    """Return the steps of a path from the root: names of members, indices of elements.

    Raises:
        ValueError: the text is not a path.
    """
    steps: list[str | int] = []
    position = 1
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            break
        name = step["plain"] or step["single"] or step["double"]
        steps.append(name if name is not None else int(step["index"]))
        position = step.end()
    if not text.startswith("$") or position < len(text):
        raise ValueError(f"{text!r} is not a path, such as $.customer.phones[0]")
    return tuple(steps)


def at_path(variant: Variant, path: VariantPath) -> Variant | None:
    """Return the value to which a path leads, or None if the path leads nowhere.

    Raises:
        MalformedVariantError: the value is damaged.
    """
    for step in path:
        kind = layout.OBJECT if isinstance(step, str) else layout.ARRAY
        if variant.basic_kind != kind:
            return None
        inner = _member(variant, step) if isinstance(step, str) else _element(variant, step)
        if inner is None:
            return None
        variant = inner
    return variant


def _member(variant: Variant, name: str) -> Variant | None:
    return next((value for key, value in variant.members() if key == name), None)


def _element(variant: Variant, element_index: int) -> Variant | None:
    elements = enumerate(variant.elements())
    return next((element for index, element in elements if index == element_index), None)
