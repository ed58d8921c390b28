"""JSON files of ours as other writers would have written them."""

from __future__ import annotations

import json
from typing import Any

from stream_app.format.json_object import DIGEST


def plain_object(data: bytes | str) -> dict[str, Any]:
    """Return a file's content without its digest, so that a test can compare or edit it."""
    document: dict[str, Any] = json.loads(data)
    document.pop(DIGEST, None)
    return document
