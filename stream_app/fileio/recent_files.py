"""Defines a process's LRU cache of the content of files.

A table's files never change and their paths are unique, so cached content stays valid.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class RecentFiles(Generic[_T]):
    """The contents of files by path; thread-safe.

    Args:
        size_max: the maximum total size; the newest file is kept whatever its size.
        size_of: returns the size of one file's content.
    """

    def __init__(self, size_max: int, size_of: Callable[[_T], int]) -> None:
        self._contents: OrderedDict[str, _T] = OrderedDict()
        self._size_max = size_max
        self._size_of = size_of
        self._size = 0
        self._lock = threading.Lock()

    def get(self, path: str, read: Callable[[], _T]) -> _T:
        """Return the content of a file from the cache, or else by `read`."""
        with self._lock:
            if path in self._contents:
                self._contents.move_to_end(path)
                return self._contents[path]
        return self.put(path, read())

    def put(self, path: str, content: _T) -> _T:
        """Cache the content of a file, and return it."""
        with self._lock:
            if path not in self._contents:
                self._contents[path] = content
                self._size += self._size_of(content)
            while self._size > self._size_max and len(self._contents) > 1:
                self._size -= self._size_of(self._contents.popitem(last=False)[1])
        return content

    def clear(self) -> None:
        """Empty the cache, for a process that changes its file systems."""
        with self._lock:
            self._contents.clear()
            self._size = 0
