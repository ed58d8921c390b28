"""Definitions of computed columns as text, such as ``dt=date_format(ts, yyyy-MM-dd)``.

Pure: it reads texts and orders them. `column_functions` has the functions.

Source: Paimon `flink/action/cdc/ComputedColumnUtils.java`, `utils/DfsSort.java`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FORM = re.compile(r"\s*(?P<name>[^=]+?)\s*=\s*(?P<function>\w+)\s*\((?P<arguments>.*)\)\s*", re.S)
FORM = "COLUMN=FUNCTION(ARGUMENTS)"


class DefinitionError(ValueError):
    """The problem of a definition, in words that follow its text."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A computed column, as the user wrote it.

    Attributes:
        function: the function's name in lower case, because these names are not case-sensitive.
        arguments: the text between commas, without blanks around it; empty for ``now()``.
    """

    name: str
    function: str
    arguments: tuple[str, ...]

    @property
    def call(self) -> str:
        """The right side, as messages show it."""
        return f"{self.function}({', '.join(self.arguments)})"


def parse_definition(text: str) -> Definition:
    """Read a definition.

    Raises:
        DefinitionError: the text has another form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise DefinitionError(f"must have the form {FORM}, such as dt=date_format(ts, yyyy-MM-dd)")
    arguments = tuple(part.strip() for part in match["arguments"].split(","))
    return Definition(
        match["name"], match["function"].lower(), () if arguments == ("",) else arguments
    )


def sort_definitions(references: Sequence[tuple[str, str | None]]) -> tuple[str, ...]:
    """Return the computed columns, each after the one to which it refers.

    Columns that refer to no computed one come first, as they were given. The order is that in which
    Paimon adds the columns to a new table.

    Args:
        references: each column's name and the column that its function takes.

    Raises:
        DefinitionError: computed columns refer to each other in a circle.
    """
    names = {name for name, _ in references}
    followers: dict[str, list[str]] = {}
    for name, reference in references:
        if reference is not None and reference in names:
            followers.setdefault(reference, []).append(name)
    postorder: list[str] = []
    visited_names: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            circle = " → ".join((*path[path.index(name) :], name))
            raise DefinitionError(f"columns refer to each other in a circle: {circle}")
        if name not in visited_names:
            for follower in followers.get(name, ()):
                visit(follower, (*path, name))
            visited_names.add(name)
            postorder.append(name)

    for name, reference in references:
        if reference in names:
            visit(name, ())
    independent = [name for name, reference in references if reference not in names]
    return (*independent, *reversed(postorder))
