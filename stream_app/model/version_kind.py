"""The form in which a version of a table is kept."""

from __future__ import annotations

import enum


class VersionKind(enum.Enum):
    """Its value is the folder in which its file lies, and how the file's name begins."""

    SNAPSHOT = "snapshot"
    TAG = "tag"
    CHANGELOG = "changelog"
    """One that outlives its snapshot."""
