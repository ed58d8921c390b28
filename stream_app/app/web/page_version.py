"""Computes the version of an open page: a digest of its content, which shows that it is stale.

The server computes it each second while browsers listen, once for all listeners of a page.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from stream_app.app.inspect.table_status import TableStatus
from stream_app.app.web.actions import Actions
from stream_app.app.web.site import Site
from stream_app.errors import StreamAppError

PAGE_CHECK_INTERVAL_S = 1.0
"""The number of seconds between two checks of a page's content."""
_PAUSE_RATIO = 4
"""The pause after a check, as a multiple of its duration, which spares a slow store."""


@dataclass(frozen=True, slots=True)
class LiveUpdates:
    """The facts by which a page learns that it is outdated.

    Attributes:
        path: the path of its events.
        version: the version of its content.
    """

    path: str
    version: str


@dataclass(slots=True)
class PageVersion:
    """The current version of a page, computed once for all browsers that show it.

    Equal content has an equal version in every process, because a page may outlive its server.
    """

    site: Site
    actions: Actions
    name: str
    _value: str = field(init=False, default="")
    _checked_at_s: float = field(init=False, default=float("-inf"))
    _duration_s: float = field(init=False, default=0.0)
    _lock: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def now(self) -> str:
        """Return the digest of the present content."""
        async with self._lock:
            start_s = asyncio.get_running_loop().time()
            if start_s - self._checked_at_s >= max(
                PAGE_CHECK_INTERVAL_S / 2, _PAUSE_RATIO * self._duration_s
            ):
                content = await run_in_threadpool(self._content)
                self._value = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
                self._checked_at_s = asyncio.get_running_loop().time()
                self._duration_s = self._checked_at_s - start_s
        return self._value

    def _content(self) -> Hashable:
        """Return the page's content without constantly changing values, or an error's text."""
        try:
            if self.name:
                table = self.site.open(self.name)
                activity = self.site.activity_of(self.name)
                epochs = self.site.epochs(self.name)
                status = self.site.status(self.name)
                return (
                    status and _without_ages(status),
                    status and status.lag is None,
                    table.snapshots.latest_id(),
                    table.schema.schema_id,
                    activity and activity.unfinished_compactions,
                    epochs[-1].epoch if epochs else None,
                    self.actions.pulse(self.name),
                )
            tables = self.site.tables()
            glance = self.site.glance(tables)
            return (
                tuple((_without_ages(status), status.snapshot) for status in tables),
                glance
                and (
                    glance.ends_problem,
                    glance.running_count,
                    glance.queued_count,
                    glance.unresolved_records,
                    glance.warnings,
                    glance.decoder,
                ),
                glance and glance.is_late(tables),
                self.actions.pulse(""),
            )
        except (StreamAppError, OSError) as error:
            return str(error)


def _without_ages(status: TableStatus) -> Hashable:
    """Return a status without the details that change constantly, such as ages and small lags."""
    lag = None if status.lag is None else status.lag.bit_length()
    is_fresh = status.fresh_s == 0
    return status.table, status.state, status.reason, lag, is_fresh, status.proven_at
