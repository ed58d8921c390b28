"""Defines a job's share of a database's tables, if several jobs share a database.

A hash of a table's name in the warehouse decides which job gets it. So shards of one table belong
to one job, and jobs need no communication.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Self

_TEXT = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})", re.ASCII)


@dataclass(frozen=True, slots=True)
class TableShare:
    """The share of job `job_number` of `job_count`, counted from 1."""

    job_number: int
    job_count: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse a text such as ``3/8``; return None if it is not a share."""
        match = _TEXT.fullmatch(text)
        if match is None or int(match[1]) > int(match[2]):
            return None
        return cls(int(match[1]), int(match[2]))

    def accepts(self, name: str) -> bool:
        """Return whether a table belongs to the job's share, ignoring the case of its name."""
        return zlib.crc32(name.lower().encode()) % self.job_count == self.job_number - 1

    @property
    def is_first(self) -> bool:
        """Whether the job also gets the messages that name no table."""
        return self.job_number == 1

    def __str__(self) -> str:
        return f"{self.job_number}/{self.job_count}"
