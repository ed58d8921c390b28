"""Keeps the garbage collector away from the trees of the project's modules."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tests.tidy.project_files import drop_trees


@pytest.fixture(scope="package", autouse=True)
def _trees_without_collector() -> Iterator[None]:
    """Collect no garbage while three million nodes live, and drop them at the end.

    Nodes form no cycle, so without the collector they are freed as well.
    """
    gc.disable()
    yield
    drop_trees()
    gc.enable()
