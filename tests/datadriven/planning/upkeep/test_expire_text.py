"""Decides which snapshots, changelogs and files expire, and the time of a partition, as text.

* ``snapshots`` and ``changelogs``: the input ``ids=1-9 now=100 time=35`` has the numbers of the
  versions, the time, and options. Snapshot n is made at the time 10 n. The output is the range that
  expires, with the reason that keeps the next version.
* ``dropped``: each line is an entry of the manifests of a snapshot, written as in test_commit_text.
  The output lists the files that no other version needs.
* ``tags`` lists the tags that protect files and metadata of a range of snapshots.
* ``time``: each line has the values of a partition. The output is the time of each.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import Any

from stream_app.errors import UsageError
from stream_app.planning.upkeep.expire_range import (
    Retention,
    changelog_range,
    limit_by_consumer,
    snapshot_range,
)
from stream_app.planning.upkeep.partition_time import partition_time
from stream_app.planning.upkeep.unused_files import (
    dropped_files,
    file_key,
    latest_tag_before,
    tags_of_range,
    unprotected_entries,
)
from tests.support.suite.datadriven import Case, run_file
from tests.support.suite.manifest_texts import entry_of, show

HERE = Path(__file__).parent
MANY = 2_147_483_647


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def _range(case: Case) -> str:
    fields = {key: value for key, _, value in (word.partition("=") for word in case.input.split())}
    numbers = _numbers(fields["ids"])
    retention = Retention(
        num_max=int(fields.get("max", MANY)),
        num_min=int(fields.get("min", 1)),
        retained_ms=int(fields.get("time", 0)),
    )
    expired_ids = set(_numbers(fields["gone"])) if "gone" in fields else set()
    timed_ids: list[int] = []

    def time_of(number: int) -> int | None:
        timed_ids.append(number)
        return None if number in expired_ids else 10 * number

    consumer = int(fields["consumer"]) if "consumer" in fields else None
    arguments: dict[str, Any] = {
        "bound_time_ms": int(fields.get("now", 1000)) - retention.retained_ms,
        "expired_max": int(fields.get("limit", 50)),
        "time_of": time_of,
    }
    if case.command == "snapshots":
        dropped_range = limit_by_consumer(snapshot_range(numbers, retention, **arguments), consumer)
    else:
        latest = int(fields["latest"])
        dropped_range = changelog_range(
            numbers, retention, latest_snapshot_id=latest, unread_id=consumer, **arguments
        )
    times = f" (asked for the times of {len(timed_ids)})" if "time" in fields else ""
    going = (
        "nothing" if dropped_range.is_empty else f"{dropped_range.start} to {dropped_range.end - 1}"
    )
    return f"{going}: {dropped_range.kept_by}{times}"


def _dropped(case: Case) -> str:
    """List the files that only older snapshots need.

    The lines before ``tag`` are entries of a snapshot; those after it, of the nearest earlier tag.
    """
    lines = list(case.input_lines)
    index = lines.index("tag") if "tag" in lines else len(lines)
    tagged_keys = {file_key(entry_of(line)) for line in lines[index + 1 :]}
    files = unprotected_entries(
        dropped_files([entry_of(line) for line in lines[:index]]), [tagged_keys]
    )
    return "\n".join(map(show, files)) or "none"


def _tags(case: Case) -> str:
    tagged_ids = _numbers(case.args["tags"])
    start, end = int(case.args["start"]), int(case.args["end"])
    befores = [f"{n}: {latest_tag_before(tagged_ids, n) or '-'}" for n in range(start + 1, end + 1)]
    shared_text = " ".join(map(str, tags_of_range(tagged_ids, start, end))) or "none"
    return f"decide over files of {', '.join(befores)}\nshare metadata: {shared_text}"


def _time(case: Case) -> str:
    """Return the time of each partition, by its values."""
    try:
        reader = partition_time(case.args.get("pattern"), case.args.get("formatter"))
    except UsageError as error:
        return error.problem
    lines = []
    for line in case.input_lines:
        pairs = [part.partition("=")[::2] for part in re.split(r" (?=\w+=)", line)]
        values = [None if value == "null" else value for _, value in pairs]
        millis = reader.time_ms([name for name, _ in pairs], values)
        lines.append("no time" if millis is None else _clock_text(millis))
    return "\n".join(lines)


def _clock_text(millis: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=millis)  # noqa: DTZ001
    return moment.isoformat(sep=" ", timespec="milliseconds" if millis % 1000 else "seconds")


COMMANDS = {
    "time": _time,
    "snapshots": _range,
    "changelogs": _range,
    "dropped": _dropped,
    "tags": _tags,
}


def test_expire_range() -> None:
    run_file(HERE / "expire_range.txt", lambda case: COMMANDS[case.command](case))


def test_partition_time() -> None:
    run_file(HERE / "partition_time.txt", lambda case: COMMANDS[case.command](case))


def test_unused_files() -> None:
    run_file(HERE / "unused_files.txt", lambda case: COMMANDS[case.command](case))
