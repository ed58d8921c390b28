"""Prepares the input of machine code: names packed in words, and the addresses of messages.

The last messages are copied, and a quote is put after them. A parser looks for the quote that ends
a text, and so finds one in a later message at the latest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from stream_app.arrow_buffers import Bytes, Int64s

WORD = 8
"""The number of bytes that machine code reads or writes at once."""
_SEARCH_SIZE = 1 << 16
_TEXT_END = np.frombuffer(b'",' + bytes(30), np.uint8)


@dataclass(frozen=True, slots=True)
class PackedNames:
    """Names with their quotes and colon; attributes as in `cell_values.ImageBuffers`."""

    words: npt.NDArray[np.uint64]
    starts: Int64s
    lengths: Int64s
    masks: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Pack names that `plain_names` gives."""
        texts = [f'"{name}":'.encode() for name in names]
        padded_texts = [text + bytes(-len(text) % WORD) for text in texts]
        lengths = np.array([len(text) for text in texts], np.int64)
        last_sizes = (lengths - 1) % WORD + 1
        return cls(
            np.frombuffer(b"".join(padded_texts), "<u8"),
            np.cumsum([0, *(len(text) // WORD for text in padded_texts)]).astype(np.int64),
            lengths,
            np.array([(1 << (8 * int(size))) - 1 for size in last_sizes], np.uint64),
        )


def plain_names(names: Iterable[str]) -> list[str]:
    """Return the different names that JSON writes without escapes; the parser declines others."""
    return [name for name in dict.fromkeys(names) if _is_plain(name)]


def _is_plain(name: str) -> bool:
    return not any(character in '"\\' or character < " " for character in name)


@dataclass(frozen=True, slots=True)
class EndedMessages:
    """n messages, after which a quote ends any text.

    Attributes:
        starts, ends: int64 [n]; the addresses of their first bytes and of their ends.
        copied_bytes: the bytes of the last messages, which must live as long as the addresses.
    """

    starts: Int64s
    ends: Int64s
    copied_bytes: Bytes


def end_messages(data: Bytes, offsets: Int64s) -> EndedMessages:
    """Return the messages at these offsets, int64 [n + 1], in the data."""
    first_index = _first_unended_index(data, offsets)
    copied_bytes = np.concatenate([data[offsets[first_index] : offsets[-1]], _TEXT_END])
    starts, ends = offsets[:-1] + data.ctypes.data, offsets[1:] + data.ctypes.data
    for positions in (starts, ends):
        positions[first_index:] += (
            copied_bytes.ctypes.data - data.ctypes.data - offsets[first_index]
        )
    return EndedMessages(starts, ends, copied_bytes)


def _first_unended_index(data: Bytes, offsets: Int64s) -> int:
    """Return the index of the first message after which no quote ends an unterminated text."""
    search_start = max(int(offsets[-1]) - _SEARCH_SIZE, int(offsets[0]))
    search_end = max(int(offsets[-1]) - len(_TEXT_END), search_start)
    quote = data[search_start:search_end].tobytes().rfind(b',"')
    if quote < 0:
        return 0
    return max(int(np.searchsorted(offsets, search_start + quote + 1, side="right")) - 1, 0)
