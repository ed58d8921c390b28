"""Warns of columns that lose something on their way from the source, with the remedy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from stream_app.planning.sync.column_remarks import TableRemark

_LOG = logging.getLogger("stream_app")


def tell_remarks(
    prefix: str, remarks: Iterable[TableRemark], full_key: Callable[[str], str]
) -> None:
    """Log a warning for each remark.

    Args:
        prefix: names the table.
        full_key: the key of an option of the format as it stands in the configuration.
    """
    for each in remarks:
        _LOG.warning("%s%s\n  to fix: %s", prefix, each.what(), each.remedy(full_key))
