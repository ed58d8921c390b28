"""Shows the progress of a command in one line on the terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field


@dataclass(slots=True)
class ProgressLine:
    """A line on the terminal that each update overwrites. Without a terminal it prints nothing."""

    is_shown: bool
    _width: int = field(init=False, default=0)

    @staticmethod
    def of_terminal() -> ProgressLine:
        """Return a line on standard error, which is shown if that is a terminal."""
        return ProgressLine(sys.stderr.isatty())

    def __call__(self, activity: str, done_count: int, count: int) -> None:
        """Overwrite the line."""
        if not self.is_shown:
            return
        text = f"{activity}: {done_count} of {count}"
        print(f"\r{text:<{self._width}}", end="", file=sys.stderr, flush=True)
        self._width = max(self._width, len(text))

    def clear(self) -> None:
        """Erase the line before other output."""
        if self._width:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr, flush=True)
            self._width = 0
