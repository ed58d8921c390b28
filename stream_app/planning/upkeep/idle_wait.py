"""How long a job whose source is quiet waits before it looks again what is due in its table.

What time alone makes due is seldom urgent, and each look costs requests: so the waits double while
nothing is found. What becomes due some time after the last commit is found before twice that time.

Called by `table.job.table_maintenance`; ours, Paimon looks at each of Flink's checkpoints.
"""

from __future__ import annotations

IDLE_WAIT_S = 10.0
"""After a commit, and after a look that has found something."""
_MOST_S = 600.0


def next_idle_wait_s(wait_s: float, *, was_due: bool) -> float:
    """The next wait after one of `wait_s` seconds."""
    return IDLE_WAIT_S if was_due else min(2 * wait_s, _MOST_S)
