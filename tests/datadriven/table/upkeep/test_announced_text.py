"""Decides which announcements of expiries and rollbacks hold, and what they forbid, as text.

Each line is an announcement. Snapshot n has the delta list n.

Of expiries: ``announced first=2 latest=9`` has the first and the latest existing snapshot.
``from=3 to=7 at=7 tagged=5`` announces that the snapshots 3 to 6 expire, except for 5, which has a
tag. ``at`` is the delta list of the snapshot 7, which stays.

Of rollbacks: ``announced newest=5 target=3`` has the latest snapshot, and the snapshot to which a
further rollback leads. ``list=new`` is the latest snapshot's delta list, if it is not its number;
``none`` if it cannot be read. ``back to=3 going=4,5`` announces a rollback to 3, which deletes 4
and 5. ``expiry from=1 to=5`` announces that the snapshots 1 to 4 expire.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.filestore.versions.announcement_files import (
    ExpiryAnnouncement,
    RollbackAnnouncement,
)
from stream_app.table.upkeep.announcements import (
    blocking_expiry,
    expiry_applies,
    expiry_is_over,
    is_expiring,
    rollback_applies,
    rollback_has_begun,
)
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent


def _words(line: str) -> dict[str, str]:
    return dict(word.split("=") for word in line.split() if "=" in word)


def _expiry(line: str) -> ExpiryAnnouncement:
    fields = _words(line)
    tagged_text = fields.get("tagged", "")
    return ExpiryAnnouncement(
        start=int(fields["from"]),
        end=int(fields["to"]),
        end_list=fields.get("at", fields["to"]),
        tagged_ids=frozenset(map(int, tagged_text.split(",") if tagged_text else [])),
    )


def _expiry_states(case: Case) -> str:
    first, latest = int(case.args["first"]), int(case.args["latest"])

    def end_list(announcement: ExpiryAnnouncement) -> str | None:
        return str(announcement.end) if first <= announcement.end <= latest else None

    announced_expiries = [_expiry(line) for line in case.input_lines]
    applying = [
        announcement
        for announcement in announced_expiries
        if expiry_applies(announcement, end_list(announcement))
    ]
    expiring = [str(number) for number in range(first, latest + 1) if is_expiring(number, applying)]
    finished_expiries = [
        f"{announcement.start}-{announcement.end - 1}"
        for announcement in announced_expiries
        if expiry_is_over(announcement, end_list(announcement), first)
    ]
    finished_text = f"; over: {' '.join(finished_expiries)}" if finished_expiries else ""
    return f"going: {' '.join(expiring) or 'none'}{finished_text}"


def test_announced_expiry() -> None:
    run_file(HERE / "announced_expiry.txt", _expiry_states)


def _rollback(line: str) -> RollbackAnnouncement:
    fields = _words(line)
    delta_lists = {int(number): number for number in fields["going"].split(",")}
    return RollbackAnnouncement(target_id=int(fields["to"]), delta_lists=delta_lists)


def _rollback_states(case: Case) -> str:
    newest, target = int(case.args["newest"]), int(case.args.get("target", "3"))
    name = case.args.get("list", str(newest))
    lines = case.input_lines
    applying = [
        rollback
        for rollback in (_rollback(line) for line in lines if line.startswith("back"))
        if rollback_applies(rollback, newest, None if name == "none" else name)
    ]
    expiries = [_expiry(line) for line in lines if line.startswith("expiry")]
    rollbacks = [
        f"rolling back to {rollback.target_id}"
        f"{', begun' if rollback_has_begun(rollback, newest) else ''}"
        for rollback in applying
    ]
    expiry = blocking_expiry(target, expiries, applying, newest)
    obstacle = f"nothing is in the way to {target}"
    if expiry:
        obstacle = f"in the way to {target}: expiry {expiry.start}-{expiry.end - 1}"
    return f"{' '.join(rollbacks) or 'no rollback'}; {obstacle}"


def test_announced_rollback() -> None:
    run_file(HERE / "announced_rollback.txt", _rollback_states)
