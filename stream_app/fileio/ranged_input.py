"""Reads an object at random positions by range requests, with a small cache.

Any request to a store takes tens of milliseconds. Parquet reads the end of a file first, then all
columns in turn, a little of each. So opening a file fetches its end, and each column that is being
read has a read-ahead window. A merge has many files open, so each caches at most `CACHE_BYTES_MAX`
besides its end.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable

TAIL_SIZE = 256 << 10
"""The bytes that opening a file fetches from its end: the footer, or all of a small file."""
CACHE_BYTES_MAX = 4 << 20
"""The maximum bytes of the read-ahead windows of one file."""
_WINDOW_BYTES_MAX = 1 << 20
_WINDOW_BYTES_MIN = 128 << 10
"""The size of the reads of Parquet's reader, for which a smaller window would not suffice."""


class RangedInput:
    """The interface of a ``pyarrow.PythonFile`` for reading an object; for one thread at a time.

    Args:
        fetch: reads the bytes at an offset with a length, within the file.
        size: the size of the file.
        tail: its last bytes, or all of them.
    """

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, tail: bytes) -> None:
        self._fetch = fetch
        self._size = size
        self._tail = tail
        self._windows: OrderedDict[int, bytes] = OrderedDict()
        self._window_size = _WINDOW_BYTES_MAX
        self._position = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read the next bytes; fewer at the end of the file."""
        end = self._size if size < 0 else min(self._position + size, self._size)
        parts = []
        while self._position < end:
            part = self._read_next(end)
            parts.append(part)
            self._position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, origin + offset)
        return self._position

    def tell(self) -> int:
        """Return the position in the file."""
        return self._position

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Drop the cached bytes."""
        self.closed = True
        self._windows.clear()
        self._tail = b""

    def _read_next(self, end: int) -> bytes:
        """Read some bytes from the position on, up to `end`."""
        tail_start = self._size - len(self._tail)
        if self._position >= tail_start:
            return self._tail[self._position - tail_start : end - tail_start]
        for start, window in self._windows.items():
            if start <= self._position < start + len(window):
                return self._read_window(start, window, end)
        end = min(end, tail_start)
        if end - self._position >= self._window_size:
            return self._fetch(self._position, end - self._position)
        window = self._fetch(self._position, min(self._window_size, tail_start - self._position))
        self._windows[self._position] = window
        self._make_room()
        return self._read_window(self._position, window, end)

    def _read_window(self, start: int, window: bytes, end: int) -> bytes:
        if end >= start + len(window):
            self._windows.pop(start, None)  # columns are read forward, so this window is used up
        elif start in self._windows:
            self._windows.move_to_end(start)
        return window[self._position - start : end - start]

    def _make_room(self) -> None:
        cached_size = sum(map(len, self._windows.values()))
        while cached_size > CACHE_BYTES_MAX:
            _, window = self._windows.popitem(last=False)
            cached_size -= len(window)
            # The window was fetched in vain, because more columns are read than windows fit.
            self._window_size = max(_WINDOW_BYTES_MIN, self._window_size // 2)
