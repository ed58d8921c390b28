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

from stream_app.cdc.columns.arrow_buffers import bools_of, null_where
from stream_app.cdc.columns.time_columns import Casted
from stream_app.cdc.computed.date_pattern import parse_pattern
from stream_app.cdc.computed.time_functions import date_format

_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` takes away: all up to the blank."""
_ABOVE_LAST_SPECIAL = 0x10000
_SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"


def substring(values: pa.Array, begin: int, end: int | None, precision: int = 0) -> Casted:
    """The characters from `begin` on, up to `end`; both must exist.

    Args:
        values: texts, or dates, timestamps and whole numbers, which are written as text first.
        precision: of timestamps.
    """
    texts = as_text(values, precision)
    needed = begin if end is None else end
    failed = bools_of(pc.less(pc.utf8_length(texts), needed))
    parts = pc.utf8_slice_codeunits(texts, begin, end)
    return (null_where(parts, failed), failed) if failed.any() else (parts, None)


def upper(values: pa.Array) -> Casted:
    """Upper case, even where that needs more letters."""
    return _changed(values, pc.utf8_upper, str.upper, _special("upper")), None


def lower(values: pa.Array) -> Casted:
    """In lower case; a sigma at the end of a word is another letter than within it."""
    return _changed(values, pc.utf8_lower, str.lower, _special("lower") | {_SIGMA}), None


def trim(values: pa.Array) -> Casted:
    """The text without blanks and control characters at both ends."""
    return pc.utf8_trim(values, _BLANKS), None


def as_text(values: pa.Array, precision: int) -> pa.Array:
    """Texts, dates, timestamps and whole numbers as text [n], as Paimon writes them."""
    kind = values.type
    if pa.types.is_date(kind):
        return date_format(values, parse_pattern("yyyy-MM-dd"))[0]
    if pa.types.is_timestamp(kind):
        fraction = "." + "S" * precision if precision else ""
        return date_format(values, parse_pattern(f"yyyy-MM-dd HH:mm:ss{fraction}"))[0]
    return values.cast(pa.string())


def _changed(
    values: pa.Array,
    change: Callable[[pa.Array], pa.Array],
    change_one: Callable[[str], str],
    special: frozenset[str],
) -> pa.Array:
    """Texts in another case; the few with a special letter go one by one."""
    changed = change(values)
    if pc.all(pc.string_is_ascii(values)).as_py() is not False:
        return changed
    odd = bools_of(pc.match_substring_regex(values, f"[{''.join(sorted(special))}]"))
    if not odd.any():
        return changed
    texts = [change_one(text) for text in values.take(pa.array(np.flatnonzero(odd))).to_pylist()]
    return pc.replace_with_mask(changed, pa.array(odd), pa.array(texts, pa.string()))


@cache
def _special(case: str) -> frozenset[str]:
    """The letters that have more than one letter in the other case."""
    letters = map(chr, range(0x80, _ABOVE_LAST_SPECIAL))
    return frozenset(letter for letter in letters if len(getattr(letter, case)()) > 1)
