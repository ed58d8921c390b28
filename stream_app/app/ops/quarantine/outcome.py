"""What has become of replayed records, in lines."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.app.ops.quarantine.replay import Replayed
from stream_app.app.text.outcomes import DRY_RUN, NOTHING, counted


def replay_lines(done: Replayed, *, dry_run: bool) -> Iterator[str]:
    """A line for each fate, and one for what was written."""
    for record, reason in done.bad:
        yield f"still bad: {record.place}: {reason}"
    for what, records in (
        ("their epoch is not in the table yet", done.early),
        ("a newer change of their row is in the table", done.overtaken),
        ("their epoch was written again, perhaps with them", done.old),
    ):
        if records:
            yield f"{counted(len(records), 'record')}: {what}; the first is {records[0].place}"
    if not (done.replayed or done.overtaken):
        yield NOTHING
    elif dry_run:
        yield f"would replay {counted(len(done.replayed), 'record')}: {done.rows} changes"
        yield DRY_RUN
    else:
        where = "" if done.snapshot is None else f" in snapshot {done.snapshot.snapshot_id}"
        yield f"replayed {counted(len(done.replayed), 'record')}: {done.rows} changes{where}"
        if done.waiting:
            yield done.waiting
