"""What an option of a table is, and how its text becomes a value.

`core_options` declares the options with the functions at the end. The table's schema stores the
texts, so this module refuses what Paimon cannot read: no other engine could open a table with such
an option.

Source: Paimon `options/OptionsUtils.java`, `options/MemorySize.java`, `utils/TimeUtils.java`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from stream_app.errors import UsageError

Value = TypeVar("Value")
_Present = TypeVar("_Present", int, None)

_INT_MAX = 2_147_483_647
_LONG_MAX = 9_223_372_036_854_775_807
_BYTES = {
    unit: 1024**power
    for power, units in enumerate(
        ("b bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes")
    )
    for unit in units.split()
} | {"": 1}
_MILLIS = {
    unit: millis
    for millis, units in {
        1: "ms milli millis millisecond milliseconds",
        1000: "s sec secs second seconds",
        60_000: "m min minute minutes",
        3_600_000: "h hour hours",
        86_400_000: "d day days",
    }.items()
    for unit in units.split()
} | {"": 1}


def parse_memory_size(text: str) -> int:
    """``128 mb`` → bytes; units are powers of 1024."""
    return _with_unit(text, _BYTES, "a size such as '128 mb'")


def parse_duration_ms(text: str) -> int:
    """``5 min`` → milliseconds."""
    return _with_unit(text, _MILLIS, "a duration such as '5 min'")


def parse_retention_ms(text: str) -> int:
    """``1 h`` → milliseconds; a number without a unit is most likely meant as seconds."""
    millis = 0 if text.strip().isdecimal() else parse_duration_ms(text)
    if millis < 1000:
        raise ValueError("is no duration of a second or more with its unit, such as '1 h'")
    return millis


def _with_unit(text: str, units: Mapping[str, int], expected: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in units:
        raise ValueError(f"is not {expected}")
    value = int(match[1]) * units[match[2]]
    if value > _LONG_MAX:
        raise ValueError("is too large")
    return value


def parse_integer(text: str) -> int:
    """A whole number of 32 bits."""
    return _whole(text, _INT_MAX)


def parse_long(text: str) -> int:
    """A whole number of 64 bits."""
    return _whole(text, _LONG_MAX)


def _whole(text: str, most: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError("is not a whole number")
    if abs(int(text)) > most:
        raise ValueError("is too large")
    return int(text)


def parse_real(text: str) -> float:
    """A number with or without a fraction."""
    if not re.fullmatch(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?", text):
        raise ValueError("is not a number")
    return float(text)


def parse_boolean(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return text.lower() == "true"


def parse_text(text: str) -> str:
    """The text as it is."""
    return text


def parse_any_case(text: str) -> str:
    """In lower case: names that Paimon compares without regard to case."""
    return text.lower()


def parse_stats_mode(text: str) -> str:
    """``none``, ``counts``, ``truncate(n)`` or ``full``, in any case."""
    if not re.fullmatch(r"none|counts|full|truncate\([1-9][0-9]*\)", text.lower()):
        raise ValueError("is none of none, counts, truncate(n) with n ≥ 1, full")
    return text.lower()


def parse_exact_columns(text: str) -> str:
    """Columns parted by commas alone; Paimon takes a blank as part of the name here."""
    if re.search(r"\s*,\s+|\s+,|^\s|\s$", text):
        raise ValueError("has blanks beside the column names, which Paimon does not take away")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Option(Generic[Value]):
    """One option: `parse` turns its text into a value.

    Attributes:
        default: the value when the option is absent; None when there is none.
        meaning: one sentence for the reader of docs/OPTIONS.md and of error messages.
        kind: ``integer``, ``size`` (bytes), ``duration`` (milliseconds), ``real``,
            ``boolean`` or ``text``.
        minimum, maximum: bounds of numbers.
        only: the values that we support; empty: any.
        older_keys: names that the option had before; they count when `key` itself is absent.
        is_own: stream_app's, unknown to Paimon (which keeps it and does nothing with it).
    """

    key: str
    parse: Callable[[str], Value]
    default: Value
    meaning: str
    kind: str
    minimum: int | None = None
    maximum: int | None = None
    only: tuple[str, ...] = ()
    older_keys: tuple[str, ...] = ()
    is_own: bool = False

    def read(self, options: Mapping[str, str]) -> Value:
        """The option's value in `options`, or its default.

        Raises:
            UsageError: the text is no value of this option.
        """
        key = next((key for key in (self.key, *self.older_keys) if key in options), None)
        if key is None:
            return self.default
        text = options[key]
        try:
            value = self.parse(text)
            self._check_bounds(value)
        except ValueError as problem:
            raise UsageError(
                f"option {key!r}: {text!r} {problem}", fix=f"{self.key}: {self.meaning}"
            ) from None
        if self.only and str(value) not in self.only:
            raise UsageError(
                f"option {key!r}: {text!r} is not supported",
                fix=f"use one of: {', '.join(self.only)}",
            )
        return value

    def _check_bounds(self, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            return
        if self.minimum is not None and value < self.minimum:
            raise ValueError(f"is below the least value {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"is above the largest value {self.maximum}")


def integer_option(
    key: str,
    default: _Present,
    meaning: str,
    *,
    minimum: int = 0,
    maximum: int | None = None,
    is_own: bool = False,
) -> Option[int | _Present]:
    """A whole number."""
    return Option(
        key=key,
        parse=parse_integer,
        default=default,
        meaning=meaning,
        kind="integer",
        minimum=minimum,
        maximum=maximum,
        is_own=is_own,
    )


@overload
def size_option(key: str, default: str, meaning: str, *, minimum: int = ...) -> Option[int]: ...


@overload
def size_option(
    key: str, default: None, meaning: str, *, minimum: int = ...
) -> Option[int | None]: ...


def size_option(key: str, default: str | None, meaning: str, *, minimum: int = 1) -> Option[Any]:
    """Bytes."""
    return Option(
        key=key,
        parse=parse_memory_size,
        default=None if default is None else parse_memory_size(default),
        meaning=meaning,
        kind="size",
        minimum=minimum,
    )


@overload
def duration_option(key: str, default: str, meaning: str, *, is_own: bool = ...) -> Option[int]: ...


@overload
def duration_option(
    key: str, default: None, meaning: str, *, is_own: bool = ...
) -> Option[int | None]: ...


def duration_option(
    key: str, default: str | None, meaning: str, *, is_own: bool = False
) -> Option[Any]:
    """Milliseconds."""
    return Option(
        key=key,
        parse=parse_duration_ms,
        default=None if default is None else parse_duration_ms(default),
        meaning=meaning,
        kind="duration",
        is_own=is_own,
    )


def boolean_option(
    key: str,
    default: bool,
    meaning: str,
    *,
    older_keys: tuple[str, ...] = (),
    is_own: bool = False,
) -> Option[bool]:
    """A switch."""
    return Option(
        key=key,
        parse=parse_boolean,
        default=default,
        meaning=meaning,
        kind="boolean",
        older_keys=older_keys,
        is_own=is_own,
    )


def choice_option(
    key: str,
    default: str,
    meaning: str,
    *only: str,
    parse: Callable[[str], str] = parse_any_case,
    older_keys: tuple[str, ...] = (),
) -> Option[str]:
    """One of a few names."""
    return Option(
        key=key,
        parse=parse,
        default=default,
        meaning=meaning,
        kind="text",
        only=only,
        older_keys=older_keys,
    )


def text_option(
    key: str,
    default: str | None,
    meaning: str,
    *,
    parse: Callable[[str], str] = parse_text,
) -> Option[str]:
    """Any text; empty when there is none."""
    return Option(key=key, parse=parse, default=default or "", meaning=meaning, kind="text")
