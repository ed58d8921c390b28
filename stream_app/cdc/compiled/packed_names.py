"""The names of fields as machine code compares them: in words of eight bytes.

Called by the layouts, which keep the arrays while machine code reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from stream_app.arrow_buffers import Int64s

_WORD = 8


@dataclass(frozen=True, slots=True)
class PackedNames:
    """Names with their quotes and colon; attributes as in `cell_values.ImageTables`."""

    words: npt.NDArray[np.uint64]
    starts: Int64s
    lengths: Int64s
    masks: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Pack names that `plain_names` gives."""
        texts = [f'"{name}":'.encode() for name in names]
        padded = [text + bytes(-len(text) % _WORD) for text in texts]
        lengths = np.array([len(text) for text in texts], np.int64)
        in_last = (lengths - 1) % _WORD + 1
        return cls(
            np.frombuffer(b"".join(padded), "<u8"),
            np.cumsum([0, *(len(text) // _WORD for text in padded)]).astype(np.int64),
            lengths,
            np.array([(1 << (8 * int(size))) - 1 for size in in_last], np.uint64),
        )


def plain_names(names: Iterable[str]) -> list[str]:
    """The different names that JSON writes without escapes; the parser declines others."""
    return [name for name in dict.fromkeys(names) if _is_plain(name)]


def _is_plain(name: str) -> bool:
    return not any(letter in '"\\' or letter < " " for letter in name)
