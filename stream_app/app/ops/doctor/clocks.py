"""Whether a clock elsewhere agrees with this machine's."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.app.ops.doctor.observation import Observation, fine, warning
from stream_app.clock import Clock

_APART_S = 5.0


def clock_observations(
    part: str, whose: str, time_ms: int, clock: Clock, *, may_be_behind: bool = False
) -> Iterator[Observation]:
    """A warning if the times are more than five seconds apart; else that they agree.

    Args:
        whose: what has told the time.
        time_ms: milliseconds since 1970 in UTC.
        may_be_behind: it is the time of a message, which may be old.
    """
    apart_s = (time_ms - clock.now_ms()) / 1000
    if apart_s > _APART_S or (apart_s < -_APART_S and not may_be_behind):
        which = "ahead of" if apart_s > 0 else "behind"
        yield warning(
            part,
            f"the time of {whose} is {abs(apart_s):.0f} s {which} this machine's clock",
            "let both machines follow a time server: expiry, tags and freshness go by these times",
        )
    elif may_be_behind:
        yield fine(part, f"the time of {whose} is not ahead of this machine's clock")
    else:
        yield fine(part, f"the time of {whose} agrees with this machine's clock")
