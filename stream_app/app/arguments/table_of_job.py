"""A table of a job that a command line names: by its name in the warehouse."""

from __future__ import annotations

from collections.abc import Collection

from stream_app.errors import UsageError
from stream_app.planning.sync.named_tables import nearest

_SHOWN_MAX = 20


def known_table(name: str, known: Collection[str], where: str) -> None:
    """Check that a job has a table.

    Raises:
        UsageError: it has none of that name; suggests the nearest.
    """
    if name in known:
        return
    near = nearest(name, known)
    meant = f"did you mean {near}? " if near else ""
    names = ", ".join(sorted(known)[:_SHOWN_MAX])
    more = f" and {len(known) - _SHOWN_MAX} more" if len(known) > _SHOWN_MAX else ""
    tables = f"the tables are {names}{more}" if known else "the job has met no table yet"
    raise UsageError(f"the job has no table {name!r}", where=where, fix=f"{meant}{tables}")
