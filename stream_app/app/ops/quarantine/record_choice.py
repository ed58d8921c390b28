"""Selects records of a quarantine: pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stream_app.app.ops.quarantine.quarantine_folder import QuarantinedRecord
from stream_app.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Conditions on records; None and empty: any record.

    Attributes:
        reasons: kinds.
        offsets: the first and the last one.
        since_ms, until_ms: of the records' own times; a record without one is outside of any.
    """

    reasons: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    partition: int | None = None
    offsets: tuple[int, int] | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def is_everything(self) -> bool:
        """Whether no condition is given."""
        return self == Choice()

    def chosen(self, records: Iterable[QuarantinedRecord]) -> list[QuarantinedRecord]:
        """The selected records, in their order."""
        return [record for record in records if self._means(record)]

    def _means(self, record: QuarantinedRecord) -> bool:
        first, last = self.offsets or (record.offset, record.offset)
        return (
            (not self.reasons or record.kind in self.reasons)
            and (not self.topics or record.topic in self.topics)
            and self.partition in (None, record.partition)
            and first <= record.offset <= last
            and self._in_time(record.timestamp)
        )

    def _in_time(self, millis: int | None) -> bool:
        if self.since_ms is None and self.until_ms is None:
            return True
        if millis is None:
            return False
        after = self.since_ms is None or millis >= self.since_ms
        return after and (self.until_ms is None or millis < self.until_ms)


def offset_range(text: str) -> tuple[int, int]:
    """Parse ``17`` or ``17..42``.

    Raises:
        UsageError: it is neither.
    """
    match = re.fullmatch(r"(\d{1,18})(?:\.\.(\d{1,18}))?", text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise UsageError(
            f"--offset {text} is no range", fix="write 17, or 17..42 with the last one"
        )
    return int(match[1]), int(match[2] or match[1])
