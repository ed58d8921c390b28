"""CDC from Kafka into Apache Paimon tables with PySpark, compacted while it is written.

``stream_app.open_table(path)`` reads a table in Python, without Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from stream_app.version import VERSION

if TYPE_CHECKING:
    from stream_app.table.api.paimon_table import PaimonTable, open_table

__version__ = VERSION
__all__ = ["PaimonTable", "__version__", "open_table"]

_READING = "stream_app.table.api.paimon_table"


def __getattr__(name: str) -> Any:
    # Tasks and the command line import this package first, and most of them do not read.
    if name in ("PaimonTable", "open_table"):
        return getattr(importlib.import_module(_READING), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
