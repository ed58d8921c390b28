"""Finds the newest epoch of each job in the snapshots of a table, as text.

Each line is a snapshot, from the latest one down: its number, its commit user and its identifier.
``ends=x`` says that its epoch ends at x. ``epochs=a:7@5,b:3@2`` is its record of the jobs' epochs,
each with the day of its commit; ``epochs=-`` is an empty record. Snapshot n is made on day n.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from stream_app.format.snapshot_properties.epochs_json import encode_epochs
from stream_app.model.job_epoch import EPOCHS_PROPERTY, JobEpoch
from stream_app.model.snapshot import SOURCE_END_PROPERTY, CommitKind, Snapshot
from stream_app.planning.commit.job_epochs import (
    carried_epochs,
    earliest_needed_snapshot_id,
    epoch_of_user,
    epochs_of,
)
from stream_app.table.commit.recorded_epochs import recording
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent
DAY_MS = 86_400_000


def _parsed_epochs(text: str) -> dict[str, JobEpoch]:
    epochs = {}
    for part in [] if text == "-" else text.split(","):
        user, _, rest = part.partition(":")
        identifier, _, day = rest.partition("@")
        epochs[user] = JobEpoch(identifier=int(identifier), time_ms=int(day) * DAY_MS)
    return epochs


def _snapshot(line: str) -> Snapshot:
    number, user, identifier, *rest = line.split()
    fields = dict(word.partition("=")[::2] for word in rest)
    properties = {}
    if "ends" in fields:
        properties[SOURCE_END_PROPERTY] = fields["ends"]
    if "epochs" in fields:
        properties[EPOCHS_PROPERTY] = encode_epochs(_parsed_epochs(fields["epochs"]))
    return Snapshot(
        snapshot_id=int(number), schema_id=0, base_manifest_list="b", base_manifest_list_size=1,
        delta_manifest_list="d", delta_manifest_list_size=1, changelog_manifest_list=None,
        changelog_manifest_list_size=None, index_manifest=None, commit_user=user,
        commit_identifier=int(identifier), commit_kind=CommitKind.APPEND,
        time_ms=int(number) * DAY_MS, total_record_count=0, delta_record_count=0,
        changelog_record_count=None, watermark=None, statistics=None,
        properties=properties or None, next_row_id=0,
    )  # fmt: skip


class _Walk:
    """Snapshots that are counted when they are looked at."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._snapshots = [_snapshot(line) for line in lines]
        self.looked_at = 0

    def __iter__(self) -> Iterator[Snapshot]:
        for snapshot in self._snapshots:
            self.looked_at += 1
            yield snapshot


def _show(epochs: Mapping[str, JobEpoch]) -> str:
    return " ".join(f"{user}:{_epoch(epoch)}" for user, epoch in epochs.items()) or "none"


def _epoch(epoch: JobEpoch) -> str:
    ends = "" if epoch.source_end is None else f" ({epoch.source_end})"
    return f"{epoch.identifier}@{epoch.time_ms // DAY_MS}{ends}"


def _epochs(case: Case) -> str:
    walk = _Walk(case.input_lines)
    epochs = dict(sorted(epochs_of(recording(walk)).items()))
    return f"{_show(epochs)}, after {walk.looked_at}"


def _user(case: Case) -> str:
    walk = _Walk(case.input_lines)
    epoch = epoch_of_user(case.args["of"], recording(walk))
    return f"{'none' if epoch is None else _epoch(epoch)}, after {walk.looked_at}"


def _carried(case: Case) -> str:
    return _show(carried_epochs(_parsed_epochs(case.input), int(case.args["day"]) * DAY_MS))


def _crowd(case: Case) -> str:
    """Return this many jobs of one day, each a millisecond after the one before."""
    first = int(case.args.get("of-day", "0")) * DAY_MS
    epochs = {f"j{n}": JobEpoch(identifier=n, time_ms=first + n) for n in range(int(case.input))}
    carried_by_job = carried_epochs(epochs, int(case.args["day"]) * DAY_MS)
    oldest_identifier = min(epoch.identifier for epoch in carried_by_job.values())
    return f"{len(carried_by_job)}, the oldest is {oldest_identifier}"


def _needed(case: Case) -> str:
    walk = _Walk(case.input_lines)
    earliest_id = earliest_needed_snapshot_id(recording(walk), int(case.args["day"]) * DAY_MS)
    return f"{'none' if earliest_id is None else earliest_id}, after {walk.looked_at}"


COMMANDS = {
    "epochs": _epochs,
    "user": _user,
    "carried": _carried,
    "crowd": _crowd,
    "needed": _needed,
}


def test_job_epochs() -> None:
    run_file(HERE / "job_epochs.txt", lambda case: COMMANDS[case.command](case))
