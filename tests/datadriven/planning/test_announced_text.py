"""Announcements of expiries in, one a line; which of the table's versions nobody may tag out.

``announced first=2 latest=9``: the snapshots that are there; ``from=3 to=7 at=7 tagged=5``: numbers
from 3 to before 7 are going but for 5, as it is seen from the snapshot 7. Snapshot n has the delta
list n.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.model.announcements import ExpiryAnnouncement
from stream_app.planning.upkeep.announcements import expiry_holds, expiry_is_over, is_expiring
from tests.support.datadriven import Case, run_file

HERE = Path(__file__).parent


def _announcement(line: str) -> ExpiryAnnouncement:
    given = dict(word.partition("=")[::2] for word in line.split())
    tagged = given.get("tagged", "")
    return ExpiryAnnouncement(
        begin=int(given["from"]),
        end=int(given["to"]),
        end_list=given["at"],
        tagged=frozenset(map(int, tagged.split(",") if tagged else [])),
    )


def _announced(case: Case) -> str:
    first, latest = int(case.args["first"]), int(case.args["latest"])

    def end_list(each: ExpiryAnnouncement) -> str | None:
        return str(each.end) if first <= each.end <= latest else None

    announced = [_announcement(line) for line in case.input_lines]
    holding = [each for each in announced if expiry_holds(each, end_list(each))]
    going = [str(number) for number in range(first, latest + 1) if is_expiring(number, holding)]
    over = [
        f"{each.begin}-{each.end - 1}"
        for each in announced
        if expiry_is_over(each, end_list(each), first)
    ]
    return f"going: {' '.join(going) or 'none'}{'; over: ' if over else ''}{' '.join(over)}"


def test_announced_expiry() -> None:
    run_file(HERE / "announced_expiry.txt", _announced)
