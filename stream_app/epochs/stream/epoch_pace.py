"""Decides when the next epoch begins: a fixed time after the last one, or as late as rows may.

`topic_stream` asks after each epoch. A message waits at most from one poll of the topics to the
next, and then for its epoch's commit. So the longest epochs that keep rows fresh are the stated
freshness less what an epoch takes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from stream_app.clock import Clock

_LOG = logging.getLogger(__name__)
_FIRST_S = 5.0
"""Seconds of a run's first epochs, before any is measured: the default of ``stream.trigger``."""
_GROWTH = 2.0
"""The maximum growth of epochs at a time: a longer epoch takes more time than was measured."""
_INTERVAL_SHARE_MIN = 0.25
"""The shortest epochs, as a part of the freshness.

Without this bound, waits for compactions would make epochs shorter, whose flushes need more
compactions.
"""
_EPOCHS_MAX = 16
_LOGGED_CHANGE = 0.1
"""The relative change of the interval from which on the log shows it."""


@dataclass(frozen=True, slots=True)
class PastEpochTimes:
    """The times of a committed epoch, in seconds.

    Attributes:
        covered_s: the time from the previous poll of the topics to the epoch's poll.
        duration_s: the time from the epoch's poll to the end of its commits.
    """

    covered_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class ChosenPace:
    """The chosen length of epochs, in seconds, and the reason.

    Attributes:
        freshness_s: age that rows may have when readers see them.
        interval_s: time between the starts of two epochs.
        epoch_count: number of the last epochs that are known.
        slowest_s: what the slowest of them took.
    """

    freshness_s: float
    interval_s: float
    epoch_count: int = 0
    slowest_s: float = 0.0

    @property
    def keeps_freshness(self) -> bool:
        """Whether rows stay as fresh as stated if epochs become no slower."""
        return self.interval_s + self.slowest_s <= self.freshness_s + 1e-6

    def text(self) -> str:
        """Return the choice, with its reason."""
        verb = "keep" if self.keeps_freshness else "do not keep"
        slowest_text = f"the slowest of the last {self.epoch_count} took {self.slowest_s:.1f} s"
        return (
            f"epochs of {self.interval_s:.1f} s {verb} rows fresher than {self.freshness_s:g} s: "
            f"{slowest_text if self.epoch_count else 'none is known yet'}"
        )


def chosen_pace(freshness_s: float, epochs: Sequence[PastEpochTimes]) -> ChosenPace:
    """Return the longest epochs that keep rows fresh.

    An epoch that covers more time than all known ones is expected to take longer in proportion.

    Args:
        freshness_s: seconds.
        epochs: the last epochs of this run.
    """
    if not epochs:
        return ChosenPace(freshness_s, min(_FIRST_S, freshness_s / 2))
    slowest_s = max(epoch.duration_s for epoch in epochs)
    longest_s = max(epoch.covered_s for epoch in epochs)
    interval_s = freshness_s - slowest_s
    if interval_s > longest_s:
        interval_s = freshness_s * longest_s / (longest_s + slowest_s)
    # Behind short epochs, such as those of a backlog, the first length is known to be harmless.
    interval_max_s = _GROWTH * max(longest_s, min(_FIRST_S, freshness_s / 2))
    interval_s = max(min(interval_s, interval_max_s), _INTERVAL_SHARE_MIN * freshness_s)
    return ChosenPace(freshness_s, interval_s, len(epochs), slowest_s)


class Pace(Protocol):
    """The decision when epochs begin.

    The stream's thread calls it, and the committer's thread calls `note_commit`.
    """

    def note_poll(self, polled_at_s: float) -> None:
        """Record when the topics' ends were requested, by the steady clock."""
        ...

    def begin(self, epoch: int) -> None:
        """Note that the last poll begins an epoch."""
        ...

    def note_commit(self, epoch: int) -> None:
        """Note that all tables have an epoch."""
        ...

    def choose_pause_s(self, *, is_full: bool) -> float:
        """Return seconds from the last poll to the next.

        Args:
            is_full: the epoch is as large as epochs may be, and messages are left.
        """
        ...

    def text(self) -> str:
        """Return the chosen length of epochs, with its reason; empty if the user has chosen it."""
        ...

    @property
    def keeps_freshness(self) -> bool:
        """Whether rows are as fresh as stated."""
        ...


@dataclass(frozen=True, slots=True)
class FixedPace:
    """A pace of epochs that begin a fixed time apart. Implements `Pace`."""

    interval_s: float = 0.0
    keeps_freshness: ClassVar[bool] = True

    def note_poll(self, polled_at_s: float) -> None:
        """Do nothing, because the pace is fixed."""

    def begin(self, epoch: int) -> None:
        """Do nothing, because the pace is fixed."""

    def note_commit(self, epoch: int) -> None:
        """Do nothing, because the pace is fixed."""

    def choose_pause_s(self, *, is_full: bool) -> float:  # noqa: ARG002
        """Return the fixed interval, also after a full epoch."""
        return self.interval_s

    def text(self) -> str:
        """Return an empty text, because the user has chosen the length."""
        return ""


@dataclass(slots=True)
class FreshPace:
    """A pace of epochs as long as a stated freshness allows. Implements `Pace`.

    Attributes:
        freshness_s: seconds that rows may be old when readers see them.
    """

    freshness_s: float
    clock: Clock
    _chosen_pace: ChosenPace = field(init=False)
    _logged_interval_s: float = field(init=False, default=0.0)
    _polls: tuple[float | None, float | None] = field(init=False, default=(None, None))
    _polls_by_epoch: dict[int, tuple[float, float]] = field(init=False, default_factory=dict)
    _epochs: tuple[PastEpochTimes, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        self._chosen_pace = chosen_pace(self.freshness_s, ())

    def note_poll(self, polled_at_s: float) -> None:
        """Keep the times of the last two polls."""
        self._polls = self._polls[1], polled_at_s

    def begin(self, epoch: int) -> None:
        """Note the last two polls; the first epoch of a run has messages of an unknown age."""
        previous_poll_at_s, last_poll_at_s = self._polls
        if previous_poll_at_s is not None and last_poll_at_s is not None:
            self._polls_by_epoch[epoch] = previous_poll_at_s, last_poll_at_s

    def note_commit(self, epoch: int) -> None:
        """Record how long the epoch took, and the time between the polls before it."""
        if (polls := self._polls_by_epoch.pop(epoch, None)) is not None:
            previous_poll_at_s, last_poll_at_s = polls
            duration_s = self.clock.steady_seconds() - last_poll_at_s
            times = PastEpochTimes(
                covered_s=last_poll_at_s - previous_poll_at_s, duration_s=duration_s
            )
            self._epochs = (*self._epochs, times)[-_EPOCHS_MAX:]

    def choose_pause_s(self, *, is_full: bool) -> float:
        """Choose the pace by the last epochs, and return its interval; 0 after a full epoch."""
        self._chosen_pace = chosen_pace(self.freshness_s, self._epochs)
        if (
            abs(self._chosen_pace.interval_s - self._logged_interval_s)
            > _LOGGED_CHANGE * self._logged_interval_s
        ):
            self._logged_interval_s = self._chosen_pace.interval_s
            _LOG.info("freshness: %s", self._chosen_pace.text())
        return 0.0 if is_full else self._chosen_pace.interval_s

    def text(self) -> str:
        """See `Pace.text`."""
        return self._chosen_pace.text()

    @property
    def keeps_freshness(self) -> bool:
        """See `Pace.keeps_freshness`."""
        return self._chosen_pace.keeps_freshness
