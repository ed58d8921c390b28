"""Decides which layers of a key index a snapshot uses, and which are merged, as text.

``chain at=SNAPSHOT``: each line is a layer, ``FIRST-LAST ROWS``. The output lists the layers in
use. ``merge`` takes the rows of each layer, and prints them after the merge.
"""

from __future__ import annotations

from pathlib import Path

from stream_app.planning.key_index.layer_chain import (
    LayerSnapshot,
    LayerSpan,
    lowest_merged_layer,
    newest_chain,
)
from tests.support.suite.datadriven import Case, run_file

HERE = Path(__file__).parent


def _version(text: str) -> LayerSnapshot:
    return LayerSnapshot(int(text.rstrip("b")), text)


def _chain(case: Case) -> str:
    layers = {}
    for line in case.input_lines:
        name, rows = line.split()
        start, end = name.split("-")
        layers[LayerSpan(None if start == "all" else _version(start), _version(end), int(rows))] = (
            name
        )
    chained_layers = newest_chain(layers, [_version(case.args["at"])])
    return "\n".join(layers[layer] for layer in chained_layers) or "none"


def _merge(case: Case) -> str:
    rows = [int(text) for text in case.input.split()]
    first = lowest_merged_layer(rows)
    return " ".join(map(str, [*rows[:first], sum(rows[first:])]))


COMMANDS = {"chain": _chain, "merge": _merge}


def _run(case: Case) -> str:
    return COMMANDS[case.command](case)


def test_layers_of_an_index_are_chosen_for_a_snapshot() -> None:
    run_file(HERE / "key_layers.txt", _run)
