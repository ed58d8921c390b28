"""Finds the orphans among files and folders by their names and times, as text."""

from __future__ import annotations

from pathlib import Path

from stream_app.table.upkeep.orphan_files import (
    OrphanCandidate,
    emptied_folders,
    may_be_cleaned,
    orphans,
)
from tests.support.suite.datadriven import Case, run_file


def _orphans(case: Case) -> str:
    """Files ``PATH TIME`` or ``PATH TIME used``; in folders of versions the name alone tells."""
    candidates, used_names = [], set()
    for line in case.input_lines:
        path, time, *rest = line.split()
        folder, _, name = path.rpartition("/")
        is_known = folder in ("", "snapshot", "changelog", "tag", "schema", "consumer")
        if not is_known or may_be_cleaned(folder, name):
            candidates.append(OrphanCandidate(path, 1, int(time)))
        used_names |= {name} if rest else set()
    orphaned_files = orphans(candidates, used_names, int(case.args["before"]))
    return "\n".join(candidate.path for candidate in orphaned_files) or "none"


def _emptied(case: Case) -> str:
    """Folders ``PATH TIME``, outer ones first, or ``PATH TIME holds`` something that stays."""
    folders, holding = {}, set()
    for line in case.input_lines:
        path, time, *rest = line.split()
        folders[path] = int(time)
        holding |= {path} if rest else set()
    return "\n".join(emptied_folders(folders, holding, int(case.args["before"]))) or "none"


COMMANDS = {"orphans": _orphans, "emptied": _emptied}


def test_only_old_files_that_nothing_names_are_orphans() -> None:
    path = Path(__file__).with_name("orphans.txt")
    run_file(path, lambda case: COMMANDS[case.command](case))
