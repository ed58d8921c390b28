"""The lines that tell an operator how a replay of quarantined records ended."""

from __future__ import annotations

from collections.abc import Iterator

from stream_app.app.ops.replay.record_replay import ReplayOutcome
from stream_app.app.text.listing import DRY_RUN, NOTHING, count_text


def replay_lines(outcome: ReplayOutcome, *, dry_run: bool) -> Iterator[str]:
    """Yield a line for each outcome, and one for the written rows."""
    for record, reason in outcome.bad_records:
        yield f"still bad: {record.place}: {reason}"
    for reason, records in (
        ("their epoch is not in the table yet", outcome.early_records),
        ("a newer change of their row is in the table", outcome.overtaken_records),
        ("their epoch was written again, perhaps with them", outcome.old_records),
    ):
        if records:
            yield f"{count_text(len(records), 'record')}: {reason}; the first is {records[0].place}"
    records_text = count_text(len(outcome.replayed_records), "record")
    if not (outcome.replayed_records or outcome.overtaken_records):
        yield NOTHING
    elif dry_run:
        yield f"would replay {records_text}: {outcome.change_count} changes"
        yield DRY_RUN
    else:
        where = "" if outcome.snapshot is None else f" in snapshot {outcome.snapshot.snapshot_id}"
        yield f"replayed {records_text}: {outcome.change_count} changes{where}"
        if outcome.waiting_note:
            yield outcome.waiting_note
