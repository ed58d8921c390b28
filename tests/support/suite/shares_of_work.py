"""Distributes the test files over the processes of pytest-xdist.

A file stays in one process, in the order of collection. So does a folder whose tests share what
each process must make anew: costly servers, or the syntax trees of the modules.
"""

from __future__ import annotations

import os

import pytest
from xdist.remote import Producer
from xdist.scheduler.loadfile import LoadFileScheduling

FOLDERS_TOGETHER = ("tests/integration/databases/", "tests/tidy/")
_PROCESSES_MAX = 4


class FilesAndFolders(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A scheduler of files one by one, and of the folders of `FOLDERS_TOGETHER` as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        for folder in FOLDERS_TOGETHER:
            if nodeid.startswith(folder):
                return folder
        return super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesAndFolders | None:
    """Return the scheduler of ``--dist loadfile``."""
    return FilesAndFolders(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_xdist_auto_num_workers() -> int:
    """Return two processes more than cores: three left two cores idle for a quarter."""
    return min(_PROCESSES_MAX, (os.cpu_count() or 1) + 2)
