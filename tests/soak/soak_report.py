"""Reports the results of a soak, as its page shows them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class SoakReport:
    """Numbers of one soak; times in seconds.

    Attributes:
        recoveries: kind of kill → from the kill (for the driver: from its start) to the next epoch
            that was committed.
        end_errors: errors with which the job ended by itself.
    """

    seed: int
    minutes: float
    kills: Counter[str] = field(default_factory=Counter)
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    end_errors: list[str] = field(default_factory=list)
    numbers: dict[str, object] = field(default_factory=dict)
    wrong: Sequence[str] = ()

    def recovered(self, kind: str, seconds: float) -> None:
        self.recoveries.setdefault(kind, []).append(seconds)

    def lines(self) -> Iterator[str]:
        yield f"soak of {self.minutes:g} minutes, seed {self.seed}"
        yield ""
        yield "| | |"
        yield "| --- | ---: |"
        for name, value in self.numbers.items():
            yield f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |"
        yield ""
        yield "| killed | times | until the next epoch: median | longest |"
        yield "| --- | ---: | ---: | ---: |"
        for kind, count in sorted(self.kills.items()):
            seconds = self.recoveries.get(kind, [])
            middle = f"{statistics.median(seconds):.1f} s" if seconds else ""
            longest = f"{max(seconds):.1f} s" if seconds else ""
            yield f"| {kind} | {count} | {middle} | {longest} |"
        yield ""
        for error in self.end_errors:
            yield f"the job ended by itself: {error}"
        for sentence in self.wrong:
            yield f"WRONG: {sentence}"
        yield "nothing is wrong" if not self.wrong else f"{len(self.wrong)} things are wrong"
