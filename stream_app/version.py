"""The version of stream_app, which also stands in each snapshot that it commits."""

from __future__ import annotations

VERSION = "0.1.0"
