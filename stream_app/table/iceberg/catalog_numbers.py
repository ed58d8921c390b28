"""The numbers that a catalog of Iceberg has given already, below which it takes no version.

A client of a catalog raises `CatalogAheadError`, and `publisher` publishes once more, above them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import StreamAppError


@dataclass(frozen=True, slots=True)
class LeastNumbers:
    """The least numbers that a catalog takes of a new version.

    Attributes:
        sequence_number: of its snapshot.
        row_id: of the first row that it adds.
    """

    sequence_number: int = 0
    row_id: int = 0


ANY_NUMBERS = LeastNumbers()
"""Of a table that no catalog knows."""


class CatalogAheadError(StreamAppError):
    """A catalog has greater numbers than a version: another program has written, or files are lost.

    Attributes:
        least: what the version's numbers must be.
    """

    def __init__(self, least: LeastNumbers, *, where: str) -> None:
        super().__init__(
            f"the Iceberg catalog takes sequence numbers from {least.sequence_number} on, and rows "
            f"from {least.row_id} on",
            where=where,
            fix="nothing has to be done, unless this lasts: then keep other programs from writing",
        )
        self.least = least
