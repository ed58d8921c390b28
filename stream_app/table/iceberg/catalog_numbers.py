"""The numbers that an Iceberg catalog has assigned; it accepts only versions above them.

A catalog client raises `CatalogAheadError`, and `publisher` then publishes again with greater
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import StreamAppError


@dataclass(frozen=True, slots=True)
class LeastNumbers:
    """The lowest numbers with which a catalog accepts a new version.

    Attributes:
        sequence_number: the sequence number of the version's snapshot.
        row_id: the row id of the first row that the version adds.
    """

    sequence_number: int = 0
    row_id: int = 0


ANY_NUMBERS = LeastNumbers()
"""The numbers of a table that no catalog knows."""


class CatalogAheadError(StreamAppError):
    """The catalog's numbers exceed the version's, because another program wrote or files were lost.

    Attributes:
        least: the lowest numbers that the catalog accepts.
    """

    def __init__(self, least: LeastNumbers, *, where: str) -> None:
        super().__init__(
            f"the Iceberg catalog takes sequence numbers from {least.sequence_number} on, and rows "
            f"from {least.row_id} on",
            where=where,
            fix="do nothing, unless this lasts: then keep other programs from writing",
        )
        self.least = least
