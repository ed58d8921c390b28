"""Detects a partitioned source table whose changes are sent under its partitions' names.

Pure. PostgreSQL publishes changes of a partitioned table under the names of its partitions, unless
the publication has publish_via_partition_root. The initial snapshot also reads the root. So the
root's table has the rows of the snapshot, and never changes again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from stream_app.model.source.origin import Origin

PUBLISH_FIX = (
    "set publish.via.partition.root = true in the connector (PostgreSQL: alter publication NAME "
    "set (publish_via_partition_root = true)), leave the partitions out (excluding-tables), and "
    "let Debezium read the root again; or leave the root out, and give the partitions its name "
    "by table-mapping"
)

PARTITIONED_REASON = (
    "the table is partitioned: unless its publication has publish_via_partition_root, its changes "
    "arrive under the names of its partitions, and its own topic stands still"
)


@dataclass(frozen=True, slots=True)
class TableSample:
    """The facts that some messages of a source table show.

    Attributes:
        columns: the names of the columns.
        snapshot_rows: rows of the initial snapshot, as values that are equal for equal rows.
        is_changed: whether any message is a change.
    """

    columns: frozenset[str]
    snapshot_rows: frozenset[object]
    is_changed: bool


def partition_roots(samples: Mapping[Origin, TableSample]) -> Mapping[Origin, Collection[Origin]]:
    """Map each table without changes to the changing tables with the same columns and rows."""
    roots: dict[Origin, list[Origin]] = {}
    for root, root_sample in sorted(samples.items()):
        if root_sample.is_changed or not root_sample.snapshot_rows:
            continue
        leaves = [
            leaf
            for leaf, leaf_sample in sorted(samples.items())
            if leaf != root
            and leaf.namespace == root.namespace
            and leaf_sample.columns == root_sample.columns
            and not leaf_sample.snapshot_rows.isdisjoint(root_sample.snapshot_rows)
        ]
        if any(samples[leaf].is_changed for leaf in leaves):
            roots[root] = leaves
    return roots


def root_warning(root: Origin, leaves: Collection[Origin]) -> str:
    """Return the text of the warning."""
    names_text = ", ".join(str(leaf) for leaf in leaves)
    return (
        f"{root} seems to be the root of partitions ({names_text}): its changes arrive under their "
        "names, so its own table has the rows of the initial snapshot, and stands still"
    )
