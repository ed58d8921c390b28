"""Single keys of a terminal, without waiting for the end of a line."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

UP, DOWN, PAGE_UP, PAGE_DOWN = "up", "down", "page up", "page down"
_NAMES = {
    b"\x1b[A": UP, b"\x1bOA": UP, b"k": UP,
    b"\x1b[B": DOWN, b"\x1bOB": DOWN, b"j": DOWN,
    b"\x1b[5~": PAGE_UP, b"\x1b[6~": PAGE_DOWN, b" ": PAGE_DOWN,
}  # fmt: skip
_LONGEST = 32


@contextmanager
def keys_of(terminal: int) -> Iterator[Callable[[float], str | None]]:
    """Within the block each key of a terminal arrives at once, without an echo.

    Args:
        terminal: its file descriptor.

    Yields:
        What waits so many seconds for a key: its name or letter; None: there was none. The end of
        the input is ``q``.
    """
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)

    def wait(seconds: float) -> str | None:
        ready, _, _ = select.select([terminal], [], [], seconds)
        if not ready:
            return None
        data = os.read(terminal, _LONGEST)
        if not data:
            return "q"
        # Of keys that arrive together the first one counts, unless all are one key's sequence.
        return _NAMES.get(data) or _NAMES.get(data[:1]) or data[:1].decode(errors="replace")

    try:
        yield wait
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
