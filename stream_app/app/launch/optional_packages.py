"""Imports modules that need the packages of an extra, when they are first used."""

from __future__ import annotations

import importlib
from typing import Any

from stream_app.errors import UsageError
from stream_app.version import install_command


def otlp_module() -> Any:
    """Import `stream_app.app.observe.channels.otlp`.

    Raises:
        UsageError: a package is missing.
    """
    return _import("stream_app.app.observe.channels.otlp", "stream.otlp-endpoint", "otel")


def openlineage_module() -> Any:
    """Import `stream_app.app.observe.channels.openlineage`.

    Raises:
        UsageError: a package is missing.
    """
    module = "stream_app.app.observe.channels.openlineage"
    return _import(module, "stream.openlineage-url", "openlineage")


def serving_module() -> Any:
    """Import `stream_app.app.web.serving`.

    Raises:
        UsageError: a package is missing.
    """
    return _import("stream_app.app.web.serving", "the page in a browser", "web")


def _import(module: str, feature: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UsageError(
            f"{feature} needs a package that is missing: {error.name}",
            fix=f"install it with {install_command(extra)}",
        ) from None
