"""Defines an order-independent checksum of rows: their number, and two sums of row hashes.

The sums are modulo 2^64, so a deleted row can be subtracted. Two different sets of rows have equal
sums with a probability of 2^-64 or less. `format.row_hash.row_hashes` computes them.
"""

from __future__ import annotations

from dataclasses import dataclass

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class RowSum:
    """The checksum of a set of rows; of changes, `row_count` may be negative.

    Attributes:
        high, low: sums of the first and last 8 bytes of each row's MD5, modulo 2^64.
    """

    row_count: int = 0
    high: int = 0
    low: int = 0

    def __post_init__(self) -> None:
        assert 0 <= self.high < _MODULUS, self
        assert 0 <= self.low < _MODULUS, self

    @classmethod
    def of_totals(cls, row_count: int, high: int, low: int) -> RowSum:
        """Return the checksum from sums that may be negative, or not yet modulo 2^64."""
        return cls(row_count, high % _MODULUS, low % _MODULUS)

    def __add__(self, other: RowSum) -> RowSum:
        """Return the checksum of both sets of rows together."""
        return self.of_totals(
            self.row_count + other.row_count, self.high + other.high, self.low + other.low
        )

    def __sub__(self, other: RowSum) -> RowSum:
        """Return the checksum of the rows without `other`."""
        return self.of_totals(
            self.row_count - other.row_count, self.high - other.high, self.low - other.low
        )

    def __str__(self) -> str:
        return f"{self.row_count} rows with checksum {self.digits}"

    @property
    def digits(self) -> str:
        """Both sums in 32 hexadecimal digits."""
        return f"{self.high:016x}{self.low:016x}"

    @classmethod
    def of_digits(cls, row_count: int, digits: str) -> RowSum:
        """Parse a checksum from the result of `digits`.

        Raises:
            ValueError: the text is not 32 hexadecimal digits.
        """
        if len(digits) != 32:
            raise ValueError(f"{digits!r} has {len(digits)} digits, not 32")
        return cls(row_count, int(digits[:16], 16), int(digits[16:], 16))


NO_ROWS = RowSum()
"""The checksum of a table without rows."""


@dataclass(frozen=True, slots=True)
class ChangeSum:
    """The checksum of the rows that changes add, minus that of the rows that they remove.

    Attributes:
        open_update_count: the number of +U rows minus that of -U rows; 0 if none is missing.
    """

    total: RowSum = NO_ROWS
    open_update_count: int = 0

    def __add__(self, other: ChangeSum) -> ChangeSum:
        """Return the checksum of both together."""
        return ChangeSum(self.total + other.total, self.open_update_count + other.open_update_count)


NO_CHANGES = ChangeSum()
"""The checksum without any change."""
