"""OpenTelemetry, whose packages are an extra."""

from __future__ import annotations

import importlib
from typing import Any

from stream_app.errors import UsageError


def otlp_module() -> Any:
    """`stream_app.app.monitoring.otlp`.

    Raises:
        UsageError: a package is missing.
    """
    try:
        return importlib.import_module("stream_app.app.monitoring.otlp")
    except ImportError as error:
        raise UsageError(
            f"stream.otlp-endpoint needs a package that is missing: {error.name}",
            fix="install it with pip install 'stream_app[otel]'",
        ) from None
