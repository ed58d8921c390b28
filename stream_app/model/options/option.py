"""Defines how table options are declared, and parses their texts into values.

An option is a constant of its module, `NUM_LEVELS = Option("num-levels", INTEGER, …)`;
`declared_options` collects the options of a module. The table's schema stores the texts, so this
module refuses values that Paimon cannot read: no other engine could open such a table.

Source: Paimon `options/OptionsUtils.java`, `options/MemorySize.java`, `utils/TimeUtils.java`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from stream_app.errors import UsageError

Value = TypeVar("Value")
Parsed_co = TypeVar("Parsed_co", covariant=True)

KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
SECOND, MINUTE, HOUR = 1000, 60_000, 3_600_000

COLUMN_PREFIX = "fields."
"""The prefix of the keys of columns' options."""

_INT_MAX = 2_147_483_647
_LONG_MAX = 9_223_372_036_854_775_807
_BYTES = {
    unit: 1024**power
    for power, units in enumerate(
        ("b bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes")
    )
    for unit in units.split()
} | {"": 1}
_UNITS_MS = {
    unit: unit_ms
    for unit_ms, units in {
        1: "ms milli millis millisecond milliseconds",
        1000: "s sec secs second seconds",
        60_000: "m min minute minutes",
        3_600_000: "h hour hours",
        86_400_000: "d day days",
    }.items()
    for unit in units.split()
} | {"": 1}


def parse_memory_size(text: str) -> int:
    """Parse a size such as ``128 mb`` to bytes; units are powers of 1024."""
    return _with_unit(text, _BYTES, "a size such as '128 mb'")


def parse_duration_ms(text: str) -> int:
    """Parse a duration such as ``5 min`` to milliseconds."""
    return _with_unit(text, _UNITS_MS, "a duration such as '5 min'")


def parse_retention_ms(text: str) -> int:
    """Parse a duration such as ``1 h``.

    It refuses a number without a unit, which probably means seconds.
    """
    duration_ms = 0 if text.strip().isdecimal() else parse_duration_ms(text)
    if duration_ms < 1000:
        raise ValueError("is not a duration of a second or more with its unit, such as '1 h'")
    return duration_ms


def _with_unit(text: str, units: Mapping[str, int], expected_text: str) -> int:
    match = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in units:
        raise ValueError(f"is not {expected_text}")
    value = int(match[1]) * units[match[2]]
    if value > _LONG_MAX:
        raise ValueError("is too large")
    return value


def parse_integer(text: str) -> int:
    """Parse a whole number of 32 bits."""
    return _whole_number(text, _INT_MAX)


def parse_long(text: str) -> int:
    """Parse a whole number of 64 bits."""
    return _whole_number(text, _LONG_MAX)


def _whole_number(text: str, maximum: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError("is not a whole number")
    if abs(int(text)) > maximum:
        raise ValueError("is too large")
    return int(text)


def parse_real(text: str) -> float:
    """Parse a number with or without a fraction."""
    if not re.fullmatch(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?", text):
        raise ValueError("is not a number")
    return float(text)


def parse_boolean(text: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError("is neither true nor false")
    return is_true(text)


def parse_stats_mode(text: str) -> str:
    """Parse ``none``, ``counts``, ``truncate(n)`` or ``full``, in any case."""
    if not re.fullmatch(r"none|counts|full|truncate\([1-9][0-9]*\)", text.lower()):
        raise ValueError("is not one of none, counts, truncate(n) with n ≥ 1, full")
    return text.lower()


def parse_exact_columns(text: str) -> str:
    """Parse columns separated by only commas; for Paimon a blank is part of a name here."""
    if re.search(r"\s*,\s+|\s+,|^\s|\s$", text):
        raise ValueError("has blanks beside the column names, which Paimon does not take away")
    return text


def parse_by_level(text: str, only: Collection[str]) -> Mapping[int, str]:
    """Parse ``0:orc,5:parquet`` to level → word, ignoring case."""
    words: dict[int, str] = {}
    for entry in text.split(","):
        level, colon, word = (part.strip() for part in entry.partition(":"))
        if not colon or not level.isdecimal():
            raise ValueError(f"is not a list such as '0:{next(iter(only))}'")
        if word.lower() not in only:
            raise ValueError(f"names {word!r}, which is not one of {', '.join(only)}")
        words[int(level)] = word.lower()
    return words


@dataclass(frozen=True, slots=True)
class OptionKind(Generic[Parsed_co]):
    """The kind of value in an option's text.

    Attributes:
        name: the kind's name in docs/reference/options.md; a ``size`` is in bytes, a ``duration``
            in milliseconds.
        parse: parses a text, or raises a ValueError that continues the text: "is not a number".
        minimum: the minimum of an option that declares no `minimum`.
    """

    name: str
    parse: Callable[[str], Parsed_co]
    minimum: int | None = None


INTEGER = OptionKind("integer", parse_integer, minimum=0)
LONG = OptionKind("integer", parse_long)
REAL = OptionKind("real", parse_real)
SIZE = OptionKind("size", parse_memory_size, minimum=1)
DURATION = OptionKind("duration", parse_duration_ms)
BOOLEAN = OptionKind("boolean", parse_boolean)
TEXT = OptionKind("text", str)
CHOICE = OptionKind("text", str.lower)
"""Names that Paimon compares without regard to case."""


def by_level(only: Collection[str]) -> OptionKind[Mapping[int, str]]:
    """Return the kind of options that map levels to one of the given words."""
    return OptionKind("map", partial(parse_by_level, only=only))


@dataclass(frozen=True, slots=True)
class Option(Generic[Value]):
    """One option: its key, its type and its default.

    Attributes:
        default: the value of an absent option; None without a default.
        meaning: one sentence for docs/reference/options.md and error messages.
        minimum, maximum: the bounds of numbers.
        only: the supported values; empty: any.
        older_keys: former names of the option, which count if `key` is absent.
        is_own: whether it is stream_app's own option, which Paimon keeps and ignores.
        example: an example of a required text; empty if it is optional.
    """

    key: str
    kind: OptionKind[Value]
    default: Value
    meaning: str
    _: KW_ONLY
    minimum: int | None = None
    maximum: int | None = None
    only: tuple[str, ...] = ()
    older_keys: tuple[str, ...] = ()
    is_own: bool = False
    example: str = ""

    def read(self, options: Mapping[str, str]) -> Value:
        """Read the option's value in `options`, or its default.

        Raises:
            UsageError: the text is not a value of this option.
        """
        key = next((key for key in (self.key, *self.older_keys) if key in options), None)
        if key is None:
            return self.default
        text = options[key]
        try:
            return self.value_of(text)
        except ValueError as problem:
            reason = str(problem)
            fix = f"{self.key}: {self.meaning}"
            if self.only:  # Paimon may have more values
                reason = "is not supported"
                fix = f"use one of: {', '.join(self.only)}"
            raise UsageError(f"option {key!r}: {text!r} {reason}", fix=fix) from None

    def value_of(self, text: str) -> Value:
        """Parse a text as a value of the option.

        Raises:
            ValueError: the error continues the text: "is not one of input, lookup".
        """
        value = self.kind.parse(text)
        self._check_bounds(value)
        if self.only and str(value) not in self.only:
            raise ValueError(f"is not one of {', '.join(self.only)}")
        return value

    def _check_bounds(self, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            return
        minimum = self.kind.minimum if self.minimum is None else self.minimum
        if minimum is not None and value < minimum:
            raise ValueError(f"is below the minimum {minimum}")
        if self.maximum is not None and value > self.maximum:
            raise ValueError(f"is above the maximum {self.maximum}")


@dataclass(frozen=True, slots=True)
class ColumnOption(Generic[Value]):
    """One option of a column, with the key ``fields.<column>.<suffix>``.

    Attributes:
        suffix: the end of the key, behind the column.
        kind, default, meaning: those of the `Option` of each column.
    """

    suffix: str
    kind: OptionKind[Value]
    default: Value
    meaning: str

    def of(self, column: str) -> Option[Value]:
        """Return the option of one column."""
        return Option(
            f"{COLUMN_PREFIX}{column}.{self.suffix}", self.kind, self.default, self.meaning
        )


def choice(key: str, meaning: str, values: tuple[str, ...]) -> Option[str]:
    """Return an option of a few values, the default first."""
    return Option(key, TEXT, values[0], meaning, only=values)


def declared_options(names: Mapping[str, object]) -> dict[str, Option[Any]]:
    """Return the options that the constants of a module declare, by key."""
    return {value.key: value for value in names.values() if isinstance(value, Option)}


def is_true(text: str) -> bool:
    """Return whether a switch is on; as in Java, each text except true means off."""
    return text.lower() == "true"


def is_on(options: Mapping[str, str], key: str) -> bool:
    """Return whether a switch with the default off is on."""
    return is_true(options.get(key, ""))
