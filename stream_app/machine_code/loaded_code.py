"""Loads modules of machine code, which need the extra `compiled`."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType


@functools.cache
def loaded_code(module: str) -> tuple[ModuleType | None, str]:
    """Return the module, or None and the reason: Numba is missing, or cannot cache its code."""
    try:
        return importlib.import_module(module), ""
    except ImportError as error:
        return None, f"the package {error.name} is missing" if error.name else str(error)
