"""Translates Java's options into librdkafka's, and decides what each task reads, as text."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stream_app.cdc.change_batch import MESSAGE_SCHEMA
from stream_app.cdc.debezium.message_transactions import debezium_transactions
from stream_app.errors import WrongSourceError
from stream_app.kafka.client_options import DEFAULT_OPTIONS, client_options
from stream_app.kafka.next_offsets import first_offsets, next_end, offsets_text, vanished_partitions
from stream_app.kafka.offset_ranges import (
    JobOffsets,
    OffsetRange,
    cut_ranges,
    join_ranges,
    ranges_between,
    share_out,
)
from stream_app.kafka.security_options import JaasError, parse_jaas
from stream_app.kafka.transactions.border import (
    LogProgress,
    NewestTransaction,
    PartitionProgress,
    PartitionState,
)
from stream_app.kafka.transactions.epoch_cut import cut_epoch
from stream_app.kafka.transactions.pending_messages import PendingMessages
from stream_app.model.database_snapshot import SourcePosition
from stream_app.model.job_epoch import Offsets
from tests.support.suite.datadriven import Case, files, run_file


def options(case: Case) -> str:
    """Each line KEY=VALUE; argument features=A,B: of the library."""
    java = dict(line.partition("=")[::2] for line in case.input_lines)
    client = client_options("broker:9092", java, case.args.get("features", "").split(","))
    defaults = {**DEFAULT_OPTIONS, "bootstrap.servers": "broker:9092"}
    lines = [
        f"{key} = {value}"
        for key, value in sorted(client.options.items())
        if defaults.get(key) != value
    ]
    lines += [f"ignored {key}: {why}" for key, why in sorted(client.ignored_reasons.items())]
    lines += [f"PROBLEM {key}: {problem}" for key, problem in sorted(client.problems.items())]
    return "\n".join(lines) or "nothing but the defaults"


def jaas(case: Case) -> str:
    """The text as in ``sasl.jaas.config``."""
    try:
        module = parse_jaas(case.input)
    except JaasError as error:
        return str(error)
    pairs = [f"{key} = {value!r}" for key, value in module.options.items()]
    return "\n".join([module.name, *pairs])


def join(case: Case) -> str:
    """Ranges of one task, as its reader reads them."""
    return "\n".join(map(_short, join_ranges(_ranges(case))))


def share(case: Case) -> str:
    """Share out ranges PLACE START END to at most tasks=N; return a line for each task."""
    shares = share_out(_ranges(case), int(case.args["tasks"]))
    return "\n".join(", ".join(map(_short, share)) for share in shares) or "no task"


def behind(case: Case) -> str:
    """Lines WHAT PLACE OFFSET; of each place the messages that the tables do not have."""
    by_kind: dict[str, dict[tuple[str, str], int]] = {"begun": {}, "committed": {}, "newest": {}}
    for line in case.input_lines:
        end_name, place, offset = line.split()
        topic, _, partition = place.partition("/")
        by_kind[end_name][topic, partition] = int(offset)
    begun, committed_epoch, newest = (
        {
            topic: {part: offset for (name, part), offset in offsets.items() if name == topic}
            for topic, _ in offsets
        }
        for offsets in by_kind.values()
    )
    lag = JobOffsets(begun_offsets=begun, committed_offsets=committed_epoch).lag(newest)
    return "\n".join(f"{'/'.join(place)} {count}" for place, count in sorted(lag.items()))


def pieces(case: Case) -> str:
    """Ranges PLACE START END, cut into about at_least=N."""
    return "\n".join(map(_short, cut_ranges(_ranges(case), int(case.args["at_least"]))))


def first(case: Case) -> str:
    """Lines PLACE OLDEST NEWEST; argument from=STARTING-OFFSETS."""
    oldest, newest = _columns(case)
    try:
        return offsets_text(first_offsets(case.args["from"], oldest, newest))
    except WrongSourceError as error:
        return str(error)


def epoch(case: Case) -> str:
    """Lines PLACE START NEWEST, - where there is none; argument limit=N."""
    start, newest = _columns(case)
    messages_max_text = case.args.get("limit")
    lines = [f"lost: {loss}" for loss in vanished_partitions(start, newest)]
    end = next_end(start, newest, int(messages_max_text) if messages_max_text else None)
    return "\n".join([*lines, offsets_text(end), *map(_short, ranges_between(start, end))])


def cut(case: Case) -> str:
    """Lines PLACE MESSAGE…; arguments unread=PLACE, known=TRANSACTION, new=PLACE, forced=yes."""
    pending, newest = PendingMessages(), dict[tuple[str, int], int]()
    rows = [_place_of(line.split()) for line in case.input_lines]
    places = {(topic, int(number)): words for topic, number, words in rows}
    progress = LogProgress()
    if "known" in case.args:
        settled_places = [
            place for place in places if "{}/{}".format(*place) != case.args.get("new")
        ]
        progress = _known(int(case.args["known"]), settled_places)
    pending.begin_at(dict.fromkeys(places, 0), progress)
    for (topic, partition), words in places.items():
        messages = [_message(topic, word) for word in words]
        offsets = np.arange(len(messages))
        if messages:
            pending.add((topic, partition), offsets, debezium_transactions(_batch(messages)))
        is_unread = f"{topic}/{partition}" == case.args.get("unread")
        newest[topic, partition] = len(messages) + is_unread
    epoch_cut = cut_epoch(pending, newest, progress, is_forced="forced" in case.args)
    border = epoch_cut.border
    lines = []
    for (topic, partition), end in epoch_cut.ends.items():
        state = border.progress.partitions[topic, partition].state
        is_settled = state is PartitionState.SETTLED
        lines.append(f"{topic}/{partition} {end}" + f" {state}" * (not is_settled))
    lines += [
        f"{name} at {position.transaction}" for name, position in border.progress.positions.items()
    ]
    lines += ["no newer transaction"] * (not border.advances)
    lines += [f"open: {place}" for place in epoch_cut.open_transactions]
    lines += ["a whole one waits behind"] * epoch_cut.is_overtaken
    lines += [f"no topic of {table}" for table in sorted(epoch_cut.tables_without_topic)]
    if border.doubt is not None:
        lines.append(f"doubt: {border.doubt.reason}{border.doubt.fix and '; '}{border.doubt.fix}")
    return "\n".join(lines)


def newest_position(case: Case) -> str:
    """Lines CONNECTOR POSITION; argument topic=NAME: that of its connector."""
    newest = {
        name: NewestTransaction(SourcePosition(commit, 0), (int(commit), 0, 0))
        for name, commit in map(str.split, case.input_lines)
    }
    return str(LogProgress(newest).newest_position(case.args["topic"])[0])


def _place_of(line: list[str]) -> tuple[str, str, list[str]]:
    topic, _, number = line[0].partition("/")
    return topic, number, line[1:]


def _known(number: int, places: Collection[tuple[str, int]]) -> LogProgress:
    """The progress of a job whose tables are the source at a transaction."""
    position = (number * _COMMIT, 0, 0)
    commit = NewestTransaction(SourcePosition(str(number), number), position)
    change = PartitionProgress((*_change_place(number, 9), 0, 9), PartitionState.SETTLED)
    return LogProgress({"s": commit}, dict.fromkeys(places, change))


_COMMIT = 10
"""PostgreSQL's positions grow by so much with a transaction."""


def _change_place(transaction: int, order: int) -> tuple[int, int]:
    return (transaction - 1) * _COMMIT, (transaction - 1) * _COMMIT + order


def _message(topic: str, word: str) -> bytes:
    name, table = topic.partition(".")[0], topic.rpartition(".")[2]
    source = {"connector": "postgresql", "name": name, "table": table}
    match word[0]:
        case "-":
            return b"{}"
        case "r" | "u":
            return json.dumps({"op": word, "source": source, "transaction": None}).encode()
        case "b":
            return json.dumps({"status": "BEGIN", "id": f"{word[1:]}:0"}).encode()
        case "e":
            number, _, counts = word[1:].partition(":")
            tables = [count.split("=") for count in counts.split(",")]
            collections = [
                {"data_collection": table, "event_count": int(count)} for table, count in tables
            ]
            server, _, number = number.rpartition("@")
            place = f"{number}:{int(number) * _COMMIT}"
            name = f"{server}-2c16-11e6-a073-0242ac110002:{number}" if server else place
            marker = {"status": "END", "id": name, "ts_ms": 1}
            return json.dumps({**marker, "data_collections": collections}).encode()
        case "o":
            block = {"id": word[1:], "total_order": 1}
            oracle = {**source, "connector": "oracle"}
            return json.dumps({"op": "u", "source": oracle, "transaction": block}).encode()
        case _:
            number, _, order = word.partition(".")
            commit, lsn = _change_place(int(number), int(order))
            block = {"id": f"{number}:{lsn}", "total_order": int(order)}
            source["sequence"] = json.dumps([str(commit), str(lsn)], separators=(",", ":"))
            return json.dumps({"op": "u", "source": source, "transaction": block}).encode()


def _batch(values: list[bytes]) -> pa.RecordBatch:
    rows = [{"value": value} for value in values]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA)


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
        place, start, end = shlex.split(line)
        topic, _, partition = place.partition("/")
        ranges.append(OffsetRange(topic, int(partition), int(start), int(end)))
    return ranges


def _short(offsets: OffsetRange) -> str:
    return f"{offsets.topic}/{offsets.partition} {offsets.start} {offsets.end}"


COMMANDS = {
    command.__name__: command
    for command in (options, jaas, join, share, behind, pieces, first, epoch, cut, newest_position)
}


@pytest.mark.parametrize("path", files(Path(__file__).parent), ids=lambda path: path.stem)
def test_options_and_offset_ranges_reach_librdkafka(path: Path) -> None:
    run_file(path, lambda case: COMMANDS[case.command](case))
