"""The version of stream_app, which each snapshot that it commits records."""

from __future__ import annotations

VERSION = "0.1.0"
