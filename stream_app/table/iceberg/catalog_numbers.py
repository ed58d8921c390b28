"""Numbers that an Iceberg catalog has already assigned; it accepts only versions above them.

A catalog client raises `CatalogAheadError`, and `publisher` then publishes again with greater
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import StreamAppError


@dataclass(frozen=True, slots=True)
class LeastNumbers:
    """The least numbers with which a catalog accepts a new version.

    Attributes:
        sequence_number: the sequence number of its snapshot.
        row_id: the row id of the first row that it adds.
    """

    sequence_number: int = 0
    row_id: int = 0


ANY_NUMBERS = LeastNumbers()
"""The numbers of a table that no catalog knows."""


class CatalogAheadError(StreamAppError):
    """A catalog has greater numbers than a version, because another program wrote or files were
    lost.

    Attributes:
        least: the least numbers that the version must have.
    """

    def __init__(self, least: LeastNumbers, *, where: str) -> None:
        super().__init__(
            f"the Iceberg catalog takes sequence numbers from {least.sequence_number} on, and rows "
            f"from {least.row_id} on",
            where=where,
            fix="nothing has to be done, unless this lasts: then keep other programs from writing",
        )
        self.least = least
