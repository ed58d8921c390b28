"""Seconds of the processor that this process and all its children have used."""

from __future__ import annotations

import os
from pathlib import Path


def tree_seconds(*, without: int | None = None) -> float:
    """Of the tree of processes below this one, ended ones included.

    Args:
        without: a process whose tree is left out.
    """
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            # Behind the name, which may hold anything: state, parent, … utime, stime, and theirs.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    total, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        if process != without:
            total += ticks.get(process, 0)
            waiting += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")
