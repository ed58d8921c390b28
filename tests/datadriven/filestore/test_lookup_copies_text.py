"""Interprets lookup_copies.txt."""

from __future__ import annotations

from pathlib import Path

from stream_app.filestore.local_copies.copies_to_delete import KeptCopy, copies_to_delete
from stream_app.mergetree.lookup.lookup_source import source_to_read
from tests.support.suite.datadriven import Case, run_file


def way(case: Case) -> str:
    return source_to_read(
        key_count=int(case.args["keys"]),
        file_row_count=int(case.args["rows"]),
        file_size=int(case.args["bytes"]),
        has_copies="no-copies" not in case.args,
    ).name


def delete(case: Case) -> str:
    """Names of the copies to delete."""
    copies = []
    for line in case.input_lines:
        name, size, until = line.split()
        copies.append(KeptCopy(name, int(size), int(until.removeprefix("until="))))
    most = int(case.args["most"]) if "most" in case.args else None
    deleted_copies = copies_to_delete(copies, now_ms=int(case.args["now"]), bytes_max=most)
    return " ".join(copy.name for copy in deleted_copies)


def test_lookups_choose_and_delete_local_copies() -> None:
    commands = {"way": way, "delete": delete}
    path = Path(__file__).parent / "lookup_copies.txt"
    run_file(path, lambda case: commands[case.command](case))
