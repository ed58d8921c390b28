"""Warns of columns that lose something on their way from the source, with the remedy."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable

from stream_app.app.config.app_config import AppConfig
from stream_app.app.tables.format_setup import full_key
from stream_app.planning.sync.column_remarks import TableRemark

_LOG = logging.getLogger("stream_app")


def tell_remarks(prefix: str, remarks: Iterable[TableRemark], config: AppConfig) -> None:
    """Log a warning for each remark.

    Args:
        prefix: names the table.
    """
    for each in remarks:
        remedy = each.remedy(functools.partial(full_key, config))
        _LOG.warning("%s%s\n  to fix: %s", prefix, each.what(), remedy)
