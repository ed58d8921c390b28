"""Describes how messages' columns differ from the table's: unknown, missing and coarser ones.

A column that the table does not have is unknown, whichever image of a record has it. A column of
the table that an after-image does not have is missing. Null and an unchanged value that was not
sent (TOAST) count as present. Before-images may hold the key alone, so nothing is missing in them.

Used by the formats.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from stream_app.errors import UsageError
from stream_app.model.schema.data_type import RowType

NARROWED_COLUMNS = "narrowed-columns"
"""The option that says what becomes of a type in the source that a column cannot follow."""
INEXACT = "inexact"
"""The option with a value of `InexactTimes`."""
JSON_AS = "json-as"
"""The option with a value of `JsonColumns`."""
TYPE_MAPPING = "type-mapping"
"""The option with the names of `MappingMode`, for tables that follow their source."""


CUT_VALUES = "cut-values"
"""The option that says what becomes of digits of a time that a column cannot hold."""
COLUMN_ALIASES = "column-aliases"
"""The option with the names that columns have in the source; see `steps.column_aliases`."""


class DriftKind(enum.Enum):
    """The kinds of drift: columns that the table lacks, that messages lack, or that lose digits."""

    UNKNOWN = "unknown"
    MISSING = "missing"
    CUT = "cut"
    """A time of the messages has digits that the table's column cannot hold."""

    @property
    def option(self) -> str:
        """The format option with the reaction to such records."""
        return CUT_VALUES if self is DriftKind.CUT else f"{self.value}-columns"


class DriftReaction(enum.Enum):
    """The treatment of a record; the values are those of the options."""

    WARN = "warn"
    IGNORE = "ignore"
    STOP = "stop"
    QUARANTINE = "quarantine"
    EVOLVE = "evolve"
    """The table gets the column: of unknown ones alone."""


NARROWED_REACTIONS = tuple(
    reaction.value for reaction in DriftReaction if reaction is not DriftReaction.EVOLVE
)
"""The values of `NARROWED_COLUMNS`."""
CUT_REACTIONS = (
    DriftReaction.WARN.value,
    DriftReaction.IGNORE.value,
    DriftReaction.QUARANTINE.value,
)
"""The values of `CUT_VALUES`."""

DriftedColumn = tuple[DriftKind, str]
_Seen = TypeVar("_Seen")


@dataclass(frozen=True, slots=True)
class Drift:
    """The columns by which one record differs from the table."""

    unknown: frozenset[str]
    missing: frozenset[str]
    cut: frozenset[str] = frozenset()

    def columns(self) -> Iterable[DriftedColumn]:
        """All columns of the drift."""
        yield from ((DriftKind.UNKNOWN, name) for name in self.unknown)
        yield from ((DriftKind.MISSING, name) for name in self.missing)
        yield from ((DriftKind.CUT, name) for name in self.cut)


NO_DRIFT = Drift(frozenset(), frozenset())


def drift_of(
    columns: frozenset[str],
    before: Collection[str] | None,
    after: Collection[str] | None,
    *,
    ignored: str | None = None,
) -> Drift:
    """The differences between a record's images and a table of these columns.

    Args:
        before, after: the fields of the images; None: there is none.
        ignored: how fields begin that the format adds to an image, and that are no columns.
    """
    unknown = (set(before or ()) | set(after or ())) - columns
    if ignored is not None:
        unknown = {name for name in unknown if not name.startswith(ignored)}
    lacking = frozenset() if after is None else columns.difference(after)
    return Drift(frozenset(unknown), lacking) if unknown or lacking else NO_DRIFT


@dataclass(frozen=True, slots=True)
class DriftRefusal:
    """The reason why a record is not stored, and whether it stops the job."""

    reason: str
    stops: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPolicy:
    """The table's columns, and the treatment of records that have others."""

    columns: frozenset[str]
    unknown: DriftReaction
    missing: DriftReaction
    cut: DriftReaction = DriftReaction.WARN

    @property
    def examines_records(self) -> bool:
        """Whether records may be refused, so that each one must be examined."""
        refusing = (
            DriftReaction.STOP,
            DriftReaction.QUARANTINE,
        )  # no set: its hashes would be Python
        return self.unknown in refusing or self.missing in refusing

    @property
    def reports_drift(self) -> bool:
        """Whether any drift must be reported."""
        return {self.unknown, self.missing} != {DriftReaction.IGNORE}

    def refusal(self, drift: Drift) -> DriftRefusal | None:
        """The reason why a record is refused, or None. A reason that stops the job comes first."""
        refusals = [
            DriftRefusal(
                f"column {min(names)!r} {what} = {reaction.value})", reaction is DriftReaction.STOP
            )
            for names, what, reaction in (
                (drift.unknown, "is not in the table (unknown-columns", self.unknown),
                (drift.missing, "is missing (missing-columns", self.missing),
            )
            if names and reaction in (DriftReaction.STOP, DriftReaction.QUARANTINE)
        ]
        return min(refusals, key=lambda refusal: not refusal.stops, default=None)

    def reported(
        self, sightings: Mapping[DriftedColumn, Sighting]
    ) -> dict[DriftedColumn, Sighting]:
        """The columns that a reaction reports: all except the ignored ones."""
        reactions = {
            DriftKind.UNKNOWN: self.unknown,
            DriftKind.MISSING: self.missing,
            DriftKind.CUT: self.cut,
        }
        return {
            column: sighting
            for column, sighting in sightings.items()
            if reactions[column[0]] is not DriftReaction.IGNORE
        }


@dataclass(frozen=True, slots=True)
class Sighting:
    """Records with the same unknown, missing or cut column, or of the same violation.

    Attributes:
        records: how many.
        first: the position of the first of them in the batch of messages.
    """

    records: int
    first: int

    def plus(self, other: Sighting) -> Sighting:
        """Return the sum of both."""
        return Sighting(self.records + other.records, min(self.first, other.first))


def sightings_together(
    left: Mapping[_Seen, Sighting], right: Mapping[_Seen, Sighting]
) -> dict[_Seen, Sighting]:
    """The sightings of two parts of a batch, at positions of the whole."""
    shared = {seen: left[seen].plus(right[seen]) for seen in left.keys() & right.keys()}
    return {**left, **right, **shared}


def add_sighting(into: dict[DriftedColumn, Sighting], drift: Drift, sighting: Sighting) -> None:
    """Count records that have this drift."""
    for column in drift.columns():
        into[column] = sighting.plus(into[column]) if column in into else sighting


Aliases = Mapping[str, str]
"""Name in the source → the table's column."""


def parse_aliases(text: str) -> Aliases:
    """Read the option's value.

    Raises:
        UsageError: it is no list of ``NAME=COLUMN``, or has a name twice.
    """
    aliases: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, column = (word.strip() for word in part.partition("="))
        if not (name and column) or name in aliases or column in aliases.values():
            raise UsageError(
                f"cannot read the aliases {text!r}",
                fix="write them like new_name=column, other_name=other_column, each name once",
            )
        aliases[name] = column
    return aliases


def alias_problems(aliases: Aliases, columns: RowType) -> list[str]:
    """Problems of aliases of a table's columns, in words."""
    problems = [
        f"the table has no column {column!r}"
        for column in aliases.values()
        if column not in columns.names
    ]
    return problems + [
        f"the table has a column {name!r} of its own" for name in aliases if name in columns.names
    ]
