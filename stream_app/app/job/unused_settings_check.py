"""Warns of settings that apply to no table of the job.

A ``[sync.tables.NAME]`` without messages is a likely misspelling, and so is an expectation whose
columns no table has. `ingest_job` calls the check between epochs. The job warns once in a run, when
it first reaches the end of its topics, because a table may appear until then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from stream_app.checkpoint.job_state import JobStateFile, JobWarning
from stream_app.model.first_texts import first_texts
from stream_app.planning.sync.named_tables import nearest_table

_SHOWN_NAMES_MAX = 20


@dataclass(slots=True)
class UnusedSettingsCheck:
    """A check for unused settings, which runs once in a run.

    Attributes:
        named_tables: the tables that have settings of their own.
        find_idle_expectations: returns the names of expectations that have applied to no table.
        state_file: the job's state, with the tables that the job has seen and the warnings.
    """

    named_tables: Sequence[str]
    find_idle_expectations: Callable[[], Sequence[str]]
    state_file: JobStateFile
    _is_done: bool = field(init=False, default=False)

    def check(self) -> None:
        """Log a warning for each unused setting, and store the warnings in the job's state."""
        if self._is_done:
            return
        self._is_done = True
        names = sorted(set(self.state_file.state.targets.values()))
        unused_names = [name for name in self.named_tables if name not in names] if names else []
        self.state_file.write_warnings(_table_warning(name, names) for name in unused_names)
        idle_expectations = self.find_idle_expectations() if names else ()
        self.state_file.write_warnings(map(_expectation_warning, idle_expectations))


def _table_warning(name: str, names: Sequence[str]) -> JobWarning:
    nearest_name = nearest_table(name, names)
    rename_fix = f"rename it to [sync.tables.{nearest_name}]; " if nearest_name else ""
    return JobWarning(
        problem=f"[sync.tables.{name}] does nothing so far: no message belongs to a table of that "
        "name",
        fix=f"{rename_fix}name one of the tables {first_texts(names, _SHOWN_NAMES_MAX)}",
    )


def _expectation_warning(expectation: str) -> JobWarning:
    return JobWarning(
        problem=f"the expectation {expectation!r} judges no row so far: no table has its columns",
        fix=f"correct expectations.{expectation}",
    )
