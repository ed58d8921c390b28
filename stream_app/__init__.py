"""CDC from Kafka into Apache Paimon tables with PySpark, compacted while it is written.

``stream_app.open_table(path)`` reads a table in Python, without Spark, and
``stream_app.open_database(path)`` all tables of a database at one transaction.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from stream_app.version import VERSION

if TYPE_CHECKING:
    from stream_app.table.api.paimon_database import PaimonDatabase, open_database
    from stream_app.table.api.paimon_table import PaimonTable, open_table

__version__ = VERSION
__all__ = ["PaimonDatabase", "PaimonTable", "__version__", "open_database", "open_table"]

_ROOM = "stream_app.table.api"
_MODULES = {
    "PaimonDatabase": "paimon_database",
    "PaimonTable": "paimon_table",
    "open_database": "paimon_database",
    "open_table": "paimon_table",
}


def __getattr__(name: str) -> Any:
    # Imported lazily: tasks and the command line import this package first, and most never read a
    # table.
    if name in _MODULES:
        return getattr(importlib.import_module(f"{_ROOM}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
