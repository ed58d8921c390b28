"""The benches' processor time includes processes that end unnoticed."""

from __future__ import annotations

import json
import os
import sys

import pytest

from bench.process_time import ProcessorMeter, Timeline, Times, lost_ticks, run_metered

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the meter reads /proc")

BURNED_S = 0.6
# A child that nobody waits for: its parent ends first. It tells what it has used by itself.
ORPHANS = f"""
import json, os, time
def burn():
    while time.process_time() < {BURNED_S}:
        pass
read, write = os.pipe()
if os.fork() == 0:  # as Spark's daemon
    for _ in range(2):  # as its workers
        if os.fork() == 0:
            burn()
            os.write(write, json.dumps(time.process_time()).encode() + b"\\n")
            os._exit(0)
    time.sleep(0.3)  # long enough to be looked at
    os._exit(0)
os.wait()
os.close(write)
told = [json.loads(line) for line in os.fdopen(read)]
print(json.dumps([*told, time.process_time()]))
"""


@pytest.mark.slow
def test_an_ended_grandchild_without_a_waiting_parent_counts() -> None:
    output, timeline = run_metered([sys.executable, "-c", ORPHANS])
    grandchildren = json.loads(output)[:-1]
    assert len(grandchildren) == 2
    assert timeline.total >= 0.85 * sum(grandchildren)


@pytest.mark.slow
def test_a_child_counts_once_that_was_waited_for() -> None:
    burn = f"import time\nwhile time.process_time() < {BURNED_S}: pass"
    command = (
        f"import subprocess, sys\nfor _ in 'ab': subprocess.run([sys.executable, '-c', {burn!r}])"
    )
    _, timeline = run_metered([sys.executable, "-c", command])
    assert 2 * BURNED_S <= timeline.total < 3 * BURNED_S


def test_a_tree_that_is_left_out_is_not_counted() -> None:
    with ProcessorMeter(os.getpid(), without=os.getpid()) as alone:
        assert alone.seconds() > 0, "the process itself is"


JOB, DAEMON, WORKER, TOOL = (1, 10), (2, 20), (3, 30), (4, 40)
PARENTS = {DAEMON: JOB, WORKER: DAEMON, TOOL: JOB}


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        pytest.param({JOB: (5, 0), TOOL: (7, 0)}, {JOB: (6, 7)}, 0, id="waited for"),
        pytest.param({JOB: (5, 0), TOOL: (7, 0)}, {JOB: (6, 0)}, 7, id="not waited for"),
        pytest.param(
            {JOB: (5, 0), DAEMON: (3, 0), WORKER: (90, 1)}, {JOB: (5, 3)}, 91, id="daemon alone"
        ),
        pytest.param(
            {JOB: (5, 0), DAEMON: (3, 0), WORKER: (90, 0)},
            {JOB: (5, 3), WORKER: (95, 0)},
            0,
            id="an orphan lives",
        ),
        pytest.param({JOB: (5, 3), WORKER: (95, 0)}, {JOB: (5, 3)}, 95, id="an orphan ends"),
    ],
)  # fmt: skip
def test_ticks_of_ended_processes_count_as_lost(
    before: dict[tuple[int, int], tuple[int, int]],
    now: dict[tuple[int, int], tuple[int, int]],
    lost: int,
) -> None:
    earlier, later = (
        {process: Times(*times) for process, times in look.items()} for look in (before, now)
    )
    assert lost_ticks(earlier, later, PARENTS) == lost


def test_seconds_between_two_moments() -> None:
    timeline = Timeline((10.0, 11.0, 13.0), (0.0, 1.0, 2.0))
    assert timeline.seconds_between(10.5, 12.0) == pytest.approx(1.0)
    assert timeline.seconds_between(0.0, 99.0) == timeline.total == 2.0
