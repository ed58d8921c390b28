"""Warns of ``[sync.tables.NAME]`` when no message belongs to that table: a likely misspelling.

It warns once, when the job first reaches the end of its topics: until then a table may still
appear.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from stream_app.planning.sync.named_tables import nearest_table
from stream_app.spark.ingest.job_state import JobStateFile

_LOG = logging.getLogger("stream_app")
_SHOWN_MAX = 20
_T = TypeVar("_T")


@dataclass(slots=True)
class UnmetTables:
    """Checks once in a run; `state` has the tables that the job has met.

    Attributes:
        named: the tables with settings of their own.
    """

    named: Sequence[str]
    state: JobStateFile
    _is_told: bool = field(init=False, default=False)

    def behind(self, first: Callable[[_T], None]) -> Callable[[_T], None]:
        """Call `first`, and then check."""

        def call(progress: _T) -> None:
            first(progress)
            self.tell()

        return call

    def tell(self) -> None:
        """Log a warning for each."""
        if self._is_told or not self.named:
            return
        self._is_told = True
        known = sorted(set(self.state.state.origins.values()))
        for name in self.named if known else ():
            if name not in known:
                near = nearest_table(name, known)
                meant = f"; did you mean [sync.tables.{near}]?" if near else "."
                more = "" if len(known) <= _SHOWN_MAX else f" and {len(known) - _SHOWN_MAX} more"
                _LOG.warning(
                    "[sync.tables.%s] does nothing so far: no message belongs to a table of that "
                    "name%s The tables are %s%s",
                    name, meant, ", ".join(known[:_SHOWN_MAX]), more,
                )  # fmt: skip
