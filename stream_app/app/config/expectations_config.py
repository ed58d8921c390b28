"""Section ``[expectations.NAME]``: conditions that rows of the job's tables must meet."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stream_app.app.config import values
from stream_app.app.config.config_keys import config_key_family
from stream_app.app.config.values import Setting, WrongValueError
from stream_app.cdc.pipeline_steps.expectations import Expectation, ExpectationAction
from stream_app.errors import UsageError
from stream_app.model.near_names import unknown_name
from stream_app.model.schema.data_type import RowType
from stream_app.predicate.parser import check_grammar, named_columns, parse_predicate

CONDITION, ACTION, TABLES = "condition", "action", "tables"
EXPECTATION_KEYS: Mapping[str, Callable[[Setting], str]] = {
    CONDITION: values.text,
    ACTION: values.one_of(*(action.value for action in ExpectationAction)),
    TABLES: values.regular_expression,
}
"""Keys of ``[expectations.NAME]``."""


def expectation_setting(setting: Setting, key: str) -> str:
    """Convert a value of a key ``NAME.condition``, ``NAME.action`` or ``NAME.tables``.

    Raises:
        WrongValueError: the key is unknown, or its value is invalid.
    """
    _, dot, rest = key.rpartition(".")
    if not dot:
        raise WrongValueError("must be a table, such as [expectations.positive-amount]")
    if rest not in EXPECTATION_KEYS:
        problem = unknown_name("key", rest, EXPECTATION_KEYS)
        raise WrongValueError(f"{problem}; known: {', '.join(EXPECTATION_KEYS)}")
    return EXPECTATION_KEYS[rest](setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationsConfig:
    """Section ``[expectations]``.

    Attributes:
        settings: ``NAME.condition``, ``NAME.action`` and ``NAME.tables`` of each expectation.
    """

    settings: Mapping[str, str] = config_key_family(
        "",
        convert=expectation_setting,
        meaning="A condition that rows must meet, by its name: `NAME.condition`, "
        "`NAME.action` (`quarantine`, `drop`, `hold` or `fail`) and, for a whole database, "
        "`NAME.tables`, a regular expression of whole names "
        "([expectations](setup/computed-columns.md#expectations)).",
    )

    @property
    def all(self) -> Sequence[Expectation]:
        """The expectations that have a condition."""
        return [
            Expectation(
                name=name,
                condition=condition,
                action=ExpectationAction(self.settings.get(f"{name}.{ACTION}", "quarantine")),
                tables=self.settings.get(f"{name}.{TABLES}"),
            )
            for name in self._names
            if (condition := self.settings.get(f"{name}.{CONDITION}")) is not None
        ]

    def of_table(self, name: str, columns: RowType) -> Sequence[Expectation]:
        """Return the expectations for one table of a whole database.

        Raises:
            UsageError: an expectation names the table but does not fit its columns.
        """
        return [expectation for expectation in self.all if _applies_to(expectation, name, columns)]

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (key, problem) for problems that do not depend on tables."""
        for name in self._names:
            if f"{name}.{CONDITION}" not in self.settings:
                yield f"expectations.{name}.{CONDITION}", "is missing: such as 'amount > 0'"
        for expectation in self.all:
            try:
                check_grammar(expectation.condition)
            except UsageError as error:
                key = f"expectations.{expectation.name}.{CONDITION}"
                yield key, f"{error.problem} ({error.fix})"

    @property
    def _names(self) -> Sequence[str]:
        return list(dict.fromkeys(key.rpartition(".")[0] for key in self.settings))


def _applies_to(expectation: Expectation, name: str, columns: RowType) -> bool:
    """Return whether an expectation applies to the table `name`.

    Raises:
        UsageError: the expectation names the table but does not fit its columns.
    """
    pattern = expectation.tables
    if pattern is None:
        if not set(named_columns(expectation.condition)).issubset(columns.names):
            return False
    elif re.fullmatch(pattern, name) is None:
        return False
    check_columns(expectation, name, columns)
    return True


def check_columns(expectation: Expectation, name: str, columns: RowType) -> None:
    """Check that the table `name` has the columns of an expectation, in types that it can compare.

    Raises:
        UsageError: a column is missing, or its type does not fit.
    """
    key = f"expectations.{expectation.name}"
    try:
        parse_predicate(expectation.condition, columns)
    except UsageError as error:
        raise UsageError(
            error.problem,
            where=f"{key}.{CONDITION}, for the table {name}",
            fix=f"{error.fix}; or choose the tables with {key}.{TABLES}",
        ) from None
