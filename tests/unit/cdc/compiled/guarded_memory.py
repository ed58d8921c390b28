"""Memory that ends the process when a byte behind it is read."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from stream_app.arrow_buffers import Bytes


def guarded_pages() -> tuple[Bytes, mmap.mmap]:
    """Three pages of memory, behind which any access ends the process."""
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    end = 3 * mmap.PAGESIZE
    forbid = ctypes.CDLL(None, use_errno=True).mprotect
    assert forbid(ctypes.c_void_p(address + end), mmap.PAGESIZE, 0) == 0
    return np.frombuffer(pages, np.uint8, end), pages
