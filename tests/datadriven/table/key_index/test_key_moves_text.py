"""Places changes whose keys may have their row in another partition, as text.

``place existing=RULE KEY=PARTITION``: each line is a change, ``KIND KEY in PARTITION``. The output
lists the changes with the deletions that the rule adds, and the partition of each key's row
afterwards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stream_app.model.traits.merge_engine import OlderRowRule
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
            partitions=np.array([PARTITIONS.index(name) for _, _, name in changes]),
            is_removal=np.array([kind in ending.get(case.args["existing"], ()) for kind in kinds]),
            partitions_before=np.array(
                [PARTITIONS.find(case.args.get(key, "none")) for key in keys]
            ),
        ),
        existing,
    )
    lines = [
        f"{'-D' if deletes else kinds[source]} {changes[source][1]} in {PARTITIONS[partition]}"
        for source, partition, deletes in zip(
            moves.change_indices, moves.partitions, moves.deletes_older, strict=True
        )
    ]
    after = (
        f"{key} nowhere" if where == NOWHERE else f"{key} in {PARTITIONS[where]}"
        for key, where in zip(keys, moves.partitions_after, strict=True)
    )
    return "\n".join([*lines, "then " + ", ".join(after)])


def test_changed_keys_move_to_their_partition() -> None:
    run_file(HERE / "key_moves.txt", _place)
