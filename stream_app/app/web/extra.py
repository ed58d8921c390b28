"""The server of the pages, whose packages are an extra."""

from __future__ import annotations

import importlib
from typing import Any

from stream_app.errors import UsageError


def serving_module() -> Any:
    """`stream_app.app.web.serving`.

    Raises:
        UsageError: a package is missing.
    """
    try:
        return importlib.import_module("stream_app.app.web.serving")
    except ImportError as error:
        raise UsageError(
            f"the page in a browser needs a package that is missing: {error.name}",
            fix="install it with pip install 'stream_app[web]'",
        ) from None
