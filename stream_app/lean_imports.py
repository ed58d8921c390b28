"""Imports the modules of a process quickly: two thousand in a driver.

Used by the programs that begin a process, before they import anything else.
"""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


@contextmanager
def lean_imports(*, without_pandas: bool = True) -> Iterator[None]:
    """Import within the block; what is imported there stays for the life of the process.

    1. The garbage collector rests: it would walk all modules again and again, a seventh of the
       time. Afterwards it leaves out what was imported.
    2. Arrow does not import pandas, which has 300 modules. It does so to ask whether a list is a
       Series, and keeps the first answer.

    Args:
        without_pandas: Arrow never gets a Series or a data frame in this process.
    """
    gc.disable()
    if without_pandas and "pandas" not in sys.modules:
        _hide_pandas_from_arrow()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _NoPandas(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)
        return None


def _hide_pandas_from_arrow() -> None:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("pyarrow").array([0])
    finally:
        sys.meta_path.remove(finder)
