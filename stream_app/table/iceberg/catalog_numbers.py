"""The numbers that an Iceberg catalog has assigned; it accepts only versions above them.

A catalog client raises `CatalogAheadError`, and `publisher` then publishes again with greater
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.errors import StreamAppError


@dataclass(frozen=True, slots=True)
class NextNumbers:
    """The lowest numbers with which a catalog accepts a new version.

    Attributes:
        sequence_number: the sequence number of the version's snapshot.
        row_id: the row id of the first row that the version adds.
    """

    sequence_number: int = 0
    row_id: int = 0


ANY_NUMBERS = NextNumbers()
"""The numbers of a table that no catalog knows."""


class CatalogAheadError(StreamAppError):
    """The catalog's numbers exceed the version's, because another program wrote or files were lost.

    Attributes:
        next_numbers: the lowest numbers that the catalog accepts.
    """

    def __init__(self, next_numbers: NextNumbers, *, where: str) -> None:
        super().__init__(
            "the Iceberg catalog accepts sequence numbers from "
            f"{next_numbers.sequence_number} on, and rows from {next_numbers.row_id} on",
            where=where,
            fix="do nothing; if this lasts, keep other programs from writing",
        )
        self.next_numbers = next_numbers
