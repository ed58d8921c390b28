"""The addresses of messages, the last of which are copied so that something ends any text.

Called by the layouts that parse whole messages. A parser looks for the quote that ends a text, and
finds one in a later message at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_app.arrow_buffers import Bytes, Int64s

_SEARCHED = 1 << 16
_END = np.frombuffer(b'",' + bytes(30), np.uint8)


@dataclass(frozen=True, slots=True)
class EndedMessages:
    """n messages.

    Attributes:
        starts, ends: int64 [n]; the addresses of their first byte, and behind their last.
        copied: the bytes of the last ones, to be kept as long as the addresses.
    """

    starts: Int64s
    ends: Int64s
    copied: Bytes


def ended_messages(data: Bytes, offsets: Int64s) -> EndedMessages:
    """The messages at these offsets, int64 [n + 1], in the data."""
    first = _unended(data, offsets)
    copied = np.concatenate([data[offsets[first] : offsets[-1]], _END])
    starts, ends = offsets[:-1] + data.ctypes.data, offsets[1:] + data.ctypes.data
    for places in (starts, ends):
        places[first:] += copied.ctypes.data - data.ctypes.data - offsets[first]
    return EndedMessages(starts, ends, copied)


def _unended(data: Bytes, offsets: Int64s) -> int:
    """The first message after which no quote ends an unterminated text."""
    first = max(int(offsets[-1]) - _SEARCHED, int(offsets[0]))
    last = max(int(offsets[-1]) - len(_END), first)
    quote = data[first:last].tobytes().rfind(b',"')
    if quote < 0:
        return 0
    return max(int(np.searchsorted(offsets, first + quote + 1, side="right")) - 1, 0)
