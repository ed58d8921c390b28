"""Changes of keys in, and where they take effect; layers of an index in, and those in use."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stream_app.model.traits.merge_engine import OlderRowRule
from stream_app.planning.key_index.layer_chain import (
    LayerSnapshot,
    LayerSpan,
    lowest_merged_layer,
    newest_chain,
)
from stream_app.table.key_index.placed_changes import NOWHERE, KeyChanges, place_changes
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent
PARTITIONS = "abc"


def _place(case: Case) -> str:
    changes = [line.replace(" in ", " ").split() for line in case.input_lines]
    keys = sorted({key for _, key, _ in changes})
    existing = OlderRowRule[case.args["existing"].upper()]
    kinds = [kind for kind, _, _ in changes]
    ending = {"moves": ("-D", "-U"), "stays": ("-D",) if "deletes-end" in case.args else ()}
    moves = place_changes(
        KeyChanges(
            key_numbers=np.array([keys.index(key) for _, key, _ in changes]),
            partition=np.array([PARTITIONS.index(name) for _, _, name in changes]),
            adds=np.array([kind.startswith("+") for kind in kinds]),
            ends=np.array([kind in ending.get(case.args["existing"], ()) for kind in kinds]),
            before=np.array([PARTITIONS.find(case.args.get(key, "none")) for key in keys]),
        ),
        existing,
    )
    lines = [
        f"{'-D' if deletes else kinds[source]} {changes[source][1]} in {PARTITIONS[partition]}"
        for source, partition, deletes in zip(
            moves.change_numbers, moves.partition, moves.deletes_older, strict=True
        )
    ]
    after = (
        f"{key} nowhere" if where == NOWHERE else f"{key} in {PARTITIONS[where]}"
        for key, where in zip(keys, moves.after, strict=True)
    )
    return "\n".join([*lines, "then " + ", ".join(after)])


def _version(text: str) -> LayerSnapshot:
    return LayerSnapshot(int(text.rstrip("b")), text)


def _chain(case: Case) -> str:
    layers = {}
    for line in case.input_lines:
        name, rows = line.split()
        begin, end = name.split("-")
        layers[LayerSpan(None if begin == "all" else _version(begin), _version(end), int(rows))] = (
            name
        )
    chained = newest_chain(layers, [_version(case.args["at"])])
    return "\n".join(layers[layer] for layer in chained) or "none"


def _merge(case: Case) -> str:
    rows = [int(text) for text in case.input.split()]
    first = lowest_merged_layer(rows)
    return " ".join(map(str, [*rows[:first], sum(rows[first:])]))


COMMANDS = {"place": _place, "chain": _chain, "merge": _merge}


def _run(case: Case) -> str:
    return COMMANDS[case.command](case)


def test_changed_keys_move_to_their_partition() -> None:
    run_file(HERE / "key_moves.txt", _run)


def test_layers_of_an_index_are_chosen_for_a_snapshot() -> None:
    run_file(HERE / "key_layers.txt", _run)
