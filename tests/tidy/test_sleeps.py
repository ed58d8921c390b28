"""A test sleeps only in a loop that checks a condition, or if time is its subject."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, tree_of

TIME_MUST_PASS = {
    "tests/integration/faults/test_jvm_ends.py": {
        "test_the_driver_ends_with_its_jvm_and_says_so": "no sign says that a job has become idle",
    },
    "tests/integration/faults/test_kill.py": {"_wait_for": "the moment of a kill is random"},
    "tests/integration/faults/test_process_faults.py": {
        "test_the_job_goes_on_when_a_killed_broker_is_back": "how long the broker is away",
        "test_a_job_of_two_clusters_waits_for_the_one_that_was_killed": "how long it is away",
    },
    "tests/interop/history/test_tags_and_rollback.py": {
        "test_paimon_leaves_what_a_protected_reader_reads": "a tag expires by the system's clock",
    },
    "tests/scenarios/read/test_paimon_table.py": {
        "test_threads_run_no_further_ahead_than_a_batch_each": "they get the time to run ahead",
    },
    "tests/soak/soak_run.py": {"_kill": "the moment of a kill is random"},
    "tests/support/jobs/interrupted_command.py": {
        "interrupt": "the moment of an interrupt is given",
    },
    "tests/testbed/database_proof.py": {"work_and_kill": "the moment of a kill is random"},
}
"""Module → function → why it sleeps outside of a loop."""


def test_sleeps_stand_in_loops_that_look() -> None:
    sleeping = {name: set(sleepers(tree_of(name))) for name in modules("tests")}
    expected = {name: set(reasons) for name, reasons in TIME_MUST_PASS.items()}
    assert {name: functions for name, functions in sleeping.items() if functions} == expected


def test_sleeps_are_seen() -> None:
    tree = ast.parse(
        "import time\ntime.sleep(1)\nwhile looks():\n    time.sleep(0.1)\ndef f(): time.sleep(2)"
    )
    assert list(sleepers(tree)) == ["", "f"]


def sleepers(node: ast.AST, function: str = "", *, in_loop: bool = False) -> Iterator[str]:
    """The functions that call ``time.sleep`` outside of loops; empty for the module itself."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and not in_loop and ast.unparse(child.func) == "time.sleep":
            yield function
        yield from sleepers(
            child,
            child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function,
            in_loop=in_loop or isinstance(child, ast.While | ast.For),
        )
