"""A statement of the source in a message, and the port that finds it.

A format declares what it has; `ddl_messages` finds the messages with statements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DdlText:
    """A statement of the source, and the database in which it ran."""

    database: str
    text: str


DdlOf = Callable[[dict[str, Any]], DdlText | None]
"""A message's document → its statement; None: it has none."""
