"""Java's options in, librdkafka's out; ranges of a task in, what its reader reads out."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stream_app.errors import WrongSourceError
from stream_app.kafka.client_options import READING_OPTIONS, client_options
from stream_app.kafka.next_offsets import first_offsets, next_end, offsets_text, vanished_partitions
from stream_app.kafka.offset_ranges import (
    JobOffsets,
    OffsetRange,
    cut_ranges,
    join_ranges,
    ranges_between,
    shared_out,
)
from stream_app.kafka.security_options import JaasError, read_jaas
from stream_app.model.job_epoch import Offsets
from tests.support.suite.datadriven import Case, files, run_file


def options(case: Case) -> str:
    """Each line KEY=VALUE; argument features=A,B: of the library."""
    java = dict(line.partition("=")[::2] for line in case.input_lines)
    client = client_options("broker:9092", java, case.args.get("features", "").split(","))
    defaults = {**READING_OPTIONS, "bootstrap.servers": "broker:9092"}
    lines = [
        f"{key} = {value}"
        for key, value in sorted(client.options.items())
        if defaults.get(key) != value
    ]
    lines += [f"ignored {key}: {why}" for key, why in sorted(client.ignored.items())]
    lines += [f"PROBLEM {key}: {what}" for key, what in sorted(client.problems.items())]
    return "\n".join(lines) or "nothing but the defaults"


def jaas(case: Case) -> str:
    """The text as in ``sasl.jaas.config``."""
    try:
        module = read_jaas(case.input)
    except JaasError as error:
        return str(error)
    pairs = [f"{key} = {value!r}" for key, value in module.options.items()]
    return "\n".join([module.name, *pairs])


def join(case: Case) -> str:
    """Ranges of one task, as its reader reads them."""
    return "\n".join(map(_short, join_ranges(_ranges(case))))


def share(case: Case) -> str:
    """Ranges PLACE BEGIN END, dealt out to at most tasks=N; a line for each task."""
    shares = shared_out(_ranges(case), int(case.args["tasks"]))
    return "\n".join(", ".join(map(_short, each)) for each in shares) or "no task"


def behind(case: Case) -> str:
    """Lines WHAT PLACE OFFSET; of each place the messages that the tables do not have."""
    by_kind: dict[str, dict[tuple[str, str], int]] = {"begun": {}, "committed": {}, "newest": {}}
    for line in case.input_lines:
        what, place, offset = line.split()
        topic, _, partition = place.partition("/")
        by_kind[what][topic, partition] = int(offset)
    begun, committed, newest = (
        {
            topic: {part: offset for (of, part), offset in offsets.items() if of == topic}
            for topic, _ in offsets
        }
        for offsets in by_kind.values()
    )
    lag = JobOffsets(begun=begun, committed=committed).behind(newest)
    return "\n".join(f"{'/'.join(place)} {count}" for place, count in sorted(lag.items()))


def pieces(case: Case) -> str:
    """Ranges PLACE BEGIN END, cut into about at_least=N."""
    return "\n".join(map(_short, cut_ranges(_ranges(case), int(case.args["at_least"]))))


def first(case: Case) -> str:
    """Lines PLACE OLDEST NEWEST; argument from=STARTING-OFFSETS."""
    oldest, newest = _columns(case)
    try:
        return offsets_text(first_offsets(case.args["from"], oldest, newest))
    except WrongSourceError as error:
        return str(error)


def epoch(case: Case) -> str:
    """Lines PLACE BEGIN NEWEST, - where there is none; argument limit=N."""
    begin, newest = _columns(case)
    limit = case.args.get("limit")
    lines = [f"lost: {loss}" for loss in vanished_partitions(begin, newest)]
    end = next_end(begin, newest, int(limit) if limit else None)
    return "\n".join([*lines, offsets_text(end), *map(_short, ranges_between(begin, end))])


def _columns(case: Case) -> tuple[Offsets, Offsets]:
    both_ends: tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]] = ({}, {})
    for line in case.input_lines:
        place, *offsets = line.split()
        topic, _, partition = place.partition("/")
        for column, offset in zip(both_ends, offsets, strict=True):
            if offset != "-":
                column.setdefault(topic, {})[partition] = int(offset)
    return both_ends


def _ranges(case: Case) -> list[OffsetRange]:
    ranges = []
    for line in case.input_lines:
        place, begin, end = shlex.split(line)
        topic, _, partition = place.partition("/")
        ranges.append(OffsetRange(topic, int(partition), int(begin), int(end)))
    return ranges


def _short(each: OffsetRange) -> str:
    return f"{each.topic}/{each.partition} {each.begin} {each.end}"


COMMANDS = {
    command.__name__: command
    for command in (options, jaas, join, share, behind, pieces, first, epoch)
}


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_kafka(path: Path) -> None:
    run_file(path, lambda case: COMMANDS[case.command](case))
