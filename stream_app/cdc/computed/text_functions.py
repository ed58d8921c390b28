"""substring, upper, lower and trim on whole columns, with the results of Java's String.

Lengths count characters (code points); Java counts a character beyond U+FFFF twice.

Source: Paimon `flink/action/cdc/Expression.java`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import bools_of, null_where
from stream_app.cdc.columns.time_columns import CastResult
from stream_app.cdc.computed.date_pattern import parse_pattern
from stream_app.cdc.computed.time_functions import date_format

_BLANKS = "".join(map(chr, range(0x21)))
"""The characters that Java's ``trim`` removes: all up to the blank."""
_SPECIAL_LETTERS_END = 0x10000
_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"


def substring(values: pa.Array, start: int, end: int | None, precision: int = 0) -> CastResult:
    """Return the characters from `start` on, up to `end`; both must exist.

    Args:
        values: texts, or dates, timestamps and whole numbers, which are written as text first.
        precision: the precision of timestamps.
    """
    texts = as_text(values, precision)
    needed_length = start if end is None else end
    has_failed = bools_of(pc.less(pc.utf8_length(texts), needed_length))
    parts = pc.utf8_slice_codeunits(texts, start, end)
    return (null_where(parts, has_failed), has_failed) if has_failed.any() else (parts, None)


def upper(values: pa.Array) -> CastResult:
    """Convert to upper case, even where a letter becomes several."""
    return _change_case(values, pc.utf8_upper, str.upper, _lengthening_letters("upper")), None


def lower(values: pa.Array) -> CastResult:
    """Convert to lower case; a final sigma has a form of its own."""
    return _change_case(
        values, pc.utf8_lower, str.lower, _lengthening_letters("lower") | {_SIGMA}
    ), None


def trim(values: pa.Array) -> CastResult:
    """Remove blanks and control characters from both ends."""
    return pc.utf8_trim(values, _BLANKS), None


def as_text(values: pa.Array, precision: int) -> pa.Array:
    """Convert texts, dates, timestamps and whole numbers to text [n], as Paimon writes them."""
    arrow_type = values.type
    if pa.types.is_date(arrow_type):
        return date_format(values, parse_pattern("yyyy-MM-dd"))[0]
    if pa.types.is_timestamp(arrow_type):
        fraction = "." + "S" * precision if precision else ""
        return date_format(values, parse_pattern(f"yyyy-MM-dd HH:mm:ss{fraction}"))[0]
    return values.cast(pa.string())


def _change_case(
    values: pa.Array,
    change: Callable[[pa.Array], pa.Array],
    change_one: Callable[[str], str],
    special_letters: frozenset[str],
) -> pa.Array:
    """Convert the case of texts; texts with a special letter are converted one by one."""
    converted_texts = change(values)
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return converted_texts
    is_special = bools_of(pc.match_substring_regex(values, f"[{''.join(sorted(special_letters))}]"))
    if not is_special.any():
        return converted_texts
    texts = [
        change_one(text) for text in values.take(pa.array(np.flatnonzero(is_special))).to_pylist()
    ]
    return pc.replace_with_mask(converted_texts, pa.array(is_special), pa.array(texts, pa.string()))


@cache
def _lengthening_letters(case: str) -> frozenset[str]:
    """Return the letters that become several letters in the other case."""
    letters = map(chr, range(0x80, _SPECIAL_LETTERS_END))
    return frozenset(letter for letter in letters if len(getattr(letter, case)()) > 1)
