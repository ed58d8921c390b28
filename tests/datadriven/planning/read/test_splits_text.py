"""Divides the files of a bucket into splits, as text.

Each line of the input is a file, ``name first-last size=… [level=…] [deletes=…]``. ``deletes=?``
says that its writer has not recorded the number. Each line of the output is a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stream_app.mergetree.interval_partition import partition_into_sections
from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.model.files.data_split import SplitGroup
from stream_app.planning.read.split_generator import SplitRules, append_groups, merge_tree_groups
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_file, int_key_of

HERE = Path(__file__).parent


def rules_of(case: Case) -> SplitRules:
    return SplitRules(target_size=int(case.args["target"]), open_file_cost=int(case.args["cost"]))


def file_of(line: str) -> DataFileMeta:
    name, *words = line.split()
    fields = dict(word.split("=") for word in words if "=" in word)
    keys = next((word.split("-") for word in words if "=" not in word), ("1", "9"))
    deletes = fields.get("deletes", "0")
    return a_file(
        name,
        keys=(int(keys[0]), int(keys[1])),
        file_size=int(fields["size"]),
        level=int(fields.get("level", "0")),
        delete_row_count=None if deletes == "?" else int(deletes),
        sequence=int(fields.get("sequence", "0")),
        row_count=9,
    )


def groups_text(groups: Sequence[SplitGroup]) -> str:
    lines = [
        " ".join(["raw" if group.is_raw else "merged", *(file.file_name for file in group.files)])
        for group in groups
    ]
    return "\n".join(lines) or "none"


def splits(case: Case) -> str:
    files = [file_of(line) for line in case.input_lines]
    return groups_text(
        merge_tree_groups(partition_into_sections(files, int_key_of), rules_of(case))
    )


def append(case: Case) -> str:
    return groups_text(append_groups([file_of(line) for line in case.input_lines], rules_of(case)))


COMMANDS = {command.__name__: command for command in (splits, append)}


def test_files_of_a_bucket_are_divided_into_splits() -> None:
    run_file(HERE / "splits.txt", lambda case: COMMANDS[case.command](case))
