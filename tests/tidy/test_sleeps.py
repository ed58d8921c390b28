"""Tests wait for conditions: a sleep stands in a loop that looks, or time itself is the subject."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.tidy.project_files import modules, tree_of

TIME_MUST_PASS = {
    "tests/integration/faults/test_jvm_ends.py": "no sign says that a job has become idle",
    "tests/integration/faults/test_kill.py": "the moment of a kill is random",
    "tests/integration/faults/test_process_faults.py": "how long the broker is away",
    "tests/interop/history/test_tags_and_rollback.py": "a tag expires by the system's clock",
    "tests/scenarios/read/test_paimon_table.py": "threads that must not read ahead get the time to",
    "tests/soak/soak_run.py": "the moment of a kill is random",
    "tests/support/jobs/interrupted_command.py": "the moment of an interrupt is given",
    "tests/testbed/database_proof.py": "the moment of a kill is random",
}


def test_sleeps_stand_in_loops_that_look() -> None:
    sleeping = {name for name in modules("tests") if any(sleeps(tree_of(name)))}
    assert sleeping == set(TIME_MUST_PASS)


def test_sleeps_are_seen() -> None:
    tree = ast.parse("import time\ntime.sleep(1)\nwhile looks():\n    time.sleep(0.1)\n")
    assert [node.lineno for node in sleeps(tree)] == [2]


def sleeps(tree: ast.AST, *, in_loop: bool = False) -> Iterator[ast.Call]:
    """Calls of ``time.sleep`` outside of loops."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and not in_loop and ast.unparse(node.func) == "time.sleep":
            yield node
        yield from sleeps(node, in_loop=in_loop or isinstance(node, ast.While | ast.For))
