"""How far a verb is: one line on the terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(slots=True)
class ProgressLine:
    """One line on the terminal that is written over; none where there is no terminal."""

    shown: bool
    _width: int = 0

    @staticmethod
    def of_terminal() -> ProgressLine:
        """The line of the terminal to which errors go, if it is one."""
        return ProgressLine(sys.stderr.isatty())

    def __call__(self, what: str, done: int, count: int) -> None:
        """Write over the line."""
        if not self.shown:
            return
        text = f"{what}: {done} of {count}"
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(text))

    def clear(self) -> None:
        """Take the line away, for something else is written."""
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
            self._width = 0
