"""Decides which small files are joined, and when, as text.

* ``rounds target=… cost=… at-least=…``: each line is a round with the sizes of its new files by
  partition, ``a: f1=10 f2=30 | b: f3=10``, or ``-`` for no new file. The output lists the tasks of
  each round, and the waiting files with their age.
* ``window target=… at-least=…`` and ``full large=… [rewrite-all]``: the input is the queue of a
  bucket.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from stream_app.model.files.data_file_meta import DataFileMeta
from stream_app.planning.compact.append_compaction import (
    PackRules,
    SubCoordinator,
    files_in_row_order,
    pick_compact_before,
    pick_full_rewrite,
    plan_round,
)
from tests.support.suite.datadriven import Case, run_file
from tests.support.tables.lsm_files import a_file

HERE = Path(__file__).parent


def files_of(text: str) -> list[DataFileMeta]:
    """``f1=10 f2=30 …``: sizes, in the order of their rows; ``many*100=1`` is a hundred files."""
    sizes = []
    for word in text.split():
        name, _, size = word.partition("=")
        name, _, count = name.partition("*")
        names = [name] if not count else [f"{name}{index}" for index in range(int(count))]
        sizes += [(name, int(size)) for name in names]
    return [
        a_file(name, file_size=size, sequence=index) for index, (name, size) in enumerate(sizes)
    ]


def names(files: Iterable[DataFileMeta]) -> str:
    shown = [file.file_name for file in files]
    return " ".join(shown) if len(shown) <= 12 else f"{shown[0]} … {shown[-1]} ({len(shown)})"


def rounds(case: Case) -> str:
    rules = PackRules(
        target_file_size=int(case.args["target"]),
        open_file_cost=int(case.args["cost"]),
        min_file_num=int(case.args["at-least"]),
    )
    subs: dict[bytes, SubCoordinator] = {}
    index_file_names: dict[str, str] = {}
    shown = []
    for number, line in enumerate(case.input_lines, 1):
        new_files = {}
        for part in [] if line == "-" else line.split("|"):
            partition, _, files = part.partition(":")
            new_files[partition.strip().encode()] = files_of(files)
        plain = {
            partition: [replace(file, file_name=file.file_name.partition("@")[0]) for file in files]
            for partition, files in new_files.items()
        }
        index_file_names |= {
            name: index_file
            for files in new_files.values()
            for name, bucket, index_file in (file.file_name.partition("@") for file in files)
            if bucket
        }
        has_deletions = "deletions" in case.args
        tasks, subs = plan_round(subs, plain, rules, index_file_names if has_deletions else None)
        units = [f"compact {partition.decode()}: {names(files)}" for partition, files in tasks]
        units += [
            f"{partition.decode()} waits: {names(sub.files)} (age {sub.age})"
            for partition, sub in subs.items()
        ]
        shown.append(f"{number}: {', '.join(units) or 'nothing'}")
    return "\n".join(shown)


def window(case: Case) -> str:
    """Pick as long as there is something to pick, and never put a compaction's files back."""
    queue = files_in_row_order(files_of(case.input))
    shown: list[str] = []
    while True:
        picked_files, queue = pick_compact_before(
            queue,
            target_file_size=int(case.args["target"]),
            min_file_num=int(case.args["at-least"]),
        )
        if not picked_files:
            return "\n".join([*shown, f"left: {names(queue) or 'nothing'}"])
        shown.append(f"compact {names(picked_files)}")


def full(case: Case) -> str:
    picked_files = pick_full_rewrite(
        files_in_row_order(files_of(case.input)),
        compaction_file_size=int(case.args["large"]),
        rewrites_all="rewrite-all" in case.args,
    )
    return names(picked_files) or "nothing"


COMMANDS = {command.__name__: command for command in (rounds, window, full)}


def test_append_compaction() -> None:
    run_file(HERE / "append_compaction.txt", lambda case: COMMANDS[case.command](case))


def test_bucketed_append_compaction() -> None:
    run_file(HERE / "bucketed_append_compaction.txt", lambda case: COMMANDS[case.command](case))
