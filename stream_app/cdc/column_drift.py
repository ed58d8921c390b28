"""Describes columns of messages that are unknown to the table, missing or coarser.

A column that the table does not have is unknown, whichever image of a record has it. A table's
column that an after-image lacks is missing. Null and an unchanged value that was not sent (TOAST)
count as present. A before-image may have only the key, so no column counts as missing there.

The message formats call it.
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
"""The option with the names of `MappingOption`, for tables that follow their source."""
CUT_VALUES = "cut-values"
"""The option that says what becomes of digits of a time that a column cannot hold."""
COLUMN_ALIASES = "column-aliases"
"""The option with the names that columns have in the source; see `pipeline_steps.alias_step`."""
Aliases = Mapping[str, str]
"""Name in the source → the table's column."""


class DriftKind(enum.Enum):
    """The kinds of drift: columns that the table or messages lack, or that lose digits."""

    UNKNOWN = "unknown"
    MISSING = "missing"
    CUT = "cut"
    """A time of the messages has digits that the table's column cannot hold."""

    @property
    def option(self) -> str:
        """The format option that sets the reaction to this kind."""
        return CUT_VALUES if self is DriftKind.CUT else f"{self.value}-columns"


class DriftReaction(enum.Enum):
    """The treatment of a record; the values are those of the options."""

    WARN = "warn"
    IGNORE = "ignore"
    STOP = "stop"
    QUARANTINE = "quarantine"
    EVOLVE = "evolve"
    """The table gets the column; only for unknown columns."""


_REFUSING_REACTIONS = (DriftReaction.STOP, DriftReaction.QUARANTINE)
"""The reactions that refuse a record; a tuple, because hashing an enum's member is slow."""
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
_SightedT = TypeVar("_SightedT")


@dataclass(frozen=True, slots=True)
class Drift:
    """The columns by which one record differs from the table."""

    unknown_columns: frozenset[str]
    missing_columns: frozenset[str]
    cut_columns: frozenset[str] = frozenset()

    def columns(self) -> Iterable[DriftedColumn]:
        """Yield all columns that differ."""
        yield from ((DriftKind.UNKNOWN, name) for name in self.unknown_columns)
        yield from ((DriftKind.MISSING, name) for name in self.missing_columns)
        yield from ((DriftKind.CUT, name) for name in self.cut_columns)


NO_DRIFT = Drift(frozenset(), frozenset())


def drift_of(
    columns: frozenset[str],
    before: Collection[str] | None,
    after: Collection[str] | None,
    *,
    ignored_prefix: str | None = None,
) -> Drift:
    """Compare the columns of a record's images with a table's.

    Args:
        before, after: the fields of the images; None for a missing image.
        ignored_prefix: the prefix of fields that the format adds to an image.
    """
    unknown_columns = (set(before or ()) | set(after or ())) - columns
    if ignored_prefix is not None:
        unknown_columns = {name for name in unknown_columns if not name.startswith(ignored_prefix)}
    missing_columns = frozenset() if after is None else columns.difference(after)
    return (
        Drift(frozenset(unknown_columns), missing_columns)
        if unknown_columns or missing_columns
        else NO_DRIFT
    )


@dataclass(frozen=True, slots=True)
class DriftRefusal:
    """The reason why a record is not stored, and whether it stops the job."""

    reason: str
    stops_job: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPolicy:
    """The table's columns, and how records with other columns are treated."""

    columns: frozenset[str]
    unknown_reaction: DriftReaction
    missing_reaction: DriftReaction
    cut_reaction: DriftReaction = DriftReaction.WARN

    @property
    def examines_records(self) -> bool:
        """Whether the policy may refuse records, so that each record must be examined."""
        return (
            self.unknown_reaction in _REFUSING_REACTIONS
            or self.missing_reaction in _REFUSING_REACTIONS
        )

    @property
    def reports_drift(self) -> bool:
        """Whether any drift must be reported."""
        return {self.unknown_reaction, self.missing_reaction} != {DriftReaction.IGNORE}

    def refusal(self, drift: Drift) -> DriftRefusal | None:
        """Return why the record is refused, or None. A reason that stops the job comes first."""
        refusals = [
            DriftRefusal(
                f"column {min(names)!r} {problem} = {reaction.value})",
                reaction is DriftReaction.STOP,
            )
            for names, problem, reaction in (
                (
                    drift.unknown_columns,
                    "is not in the table (unknown-columns",
                    self.unknown_reaction,
                ),
                (drift.missing_columns, "is missing (missing-columns", self.missing_reaction),
            )
            if names and reaction in _REFUSING_REACTIONS
        ]
        return min(refusals, key=lambda refusal: not refusal.stops_job, default=None)

    def reported(
        self, sightings: Mapping[DriftedColumn, Sighting]
    ) -> dict[DriftedColumn, Sighting]:
        """Return the columns that a reaction reports: all except the ignored ones."""
        reactions = {
            DriftKind.UNKNOWN: self.unknown_reaction,
            DriftKind.MISSING: self.missing_reaction,
            DriftKind.CUT: self.cut_reaction,
        }
        return {
            column: sighting
            for column, sighting in sightings.items()
            if reactions[column[0]] is not DriftReaction.IGNORE
        }


@dataclass(frozen=True, slots=True)
class Sighting:
    """Records with the same unknown, missing or cut column, or with the same violation.

    Attributes:
        first_index: index of the first record in the batch of messages.
    """

    record_count: int
    first_index: int

    def plus(self, other: Sighting) -> Sighting:
        """Add another sighting."""
        return Sighting(
            self.record_count + other.record_count, min(self.first_index, other.first_index)
        )


def join_sightings(
    left: Mapping[_SightedT, Sighting], right: Mapping[_SightedT, Sighting]
) -> dict[_SightedT, Sighting]:
    """Join the sightings of two parts of a batch, with indices in the whole batch."""
    shared_sightings = {key: left[key].plus(right[key]) for key in left.keys() & right.keys()}
    return {**left, **right, **shared_sightings}


def add_sighting(
    sightings: dict[DriftedColumn, Sighting], drift: Drift, sighting: Sighting
) -> None:
    """Add the sighting of this drift to the sightings of each of its columns."""
    for column in drift.columns():
        sightings[column] = sighting.plus(sightings[column]) if column in sightings else sighting


def parse_aliases(text: str) -> Aliases:
    """Parse the value of `COLUMN_ALIASES`.

    Raises:
        UsageError: the value is not a list of ``NAME=COLUMN``, or has a name twice.
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
    """Describe the problems of the aliases of a table's columns."""
    problems = [
        f"the table has no column {column!r}"
        for column in aliases.values()
        if column not in columns.names
    ]
    return problems + [
        f"the table has a column {name!r} of its own" for name in aliases if name in columns.names
    ]
