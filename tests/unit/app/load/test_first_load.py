"""A first load chooses the tables that a connector sends, and prints its progress."""

from __future__ import annotations

import pytest

from stream_app.app.load.load_progress import LoadProgress, progress_of
from stream_app.app.source.captured_tables import FollowedDatabase, Relation, RelationName
from stream_app.checkpoint.load_plan import LoadPart, LoadPlan

ORDERS, ROOT, LEAF = ("public", "orders"), ("public", "days"), ("public", "days_1")
RELATIONS = {
    ORDERS: Relation(),
    ROOT: Relation(is_root=True),
    LEAF: Relation(is_partition=True),
}
IN_PLACE = "is partitioned, and its changes name its partitions"


@pytest.mark.parametrize(
    ("relation", "published_names", "why"),
    [
        (ORDERS, None, ""),
        (ROOT, None, IN_PLACE),
        (LEAF, None, ""),
        (("public", "a_view"), None, "is not a table, and no log has changes of it"),
        (ORDERS, {ORDERS, LEAF}, ""),
        (ORDERS, {LEAF}, "is in no publication"),
        (ROOT, {LEAF}, IN_PLACE),
        (LEAF, {LEAF}, ""),
        (ROOT, {ROOT}, ""),
        (LEAF, {ROOT}, "is in no publication"),
    ],
)
def test_only_tables_that_the_connector_sends_are_loaded(
    relation: RelationName, published_names: set[RelationName] | None, why: str
) -> None:
    """Publications name a root or its partitions, by `publish_via_partition_root`."""
    sent = None if published_names is None else frozenset(published_names)
    database = FollowedDatabase(relations=RELATIONS, published_relations=sent)
    assert database.why_not_sent(relation) == why


def test_progress_counts_key_ranges_and_rows() -> None:
    parts = [LoadPart(name=name, table=name, relation=name) for name in "aaaab"]
    plan = LoadPlan(
        source="jdbc:…",
        log_position="0/1",
        begun_time_ms=1_000,
        offsets={},
        epochs=[parts[:3], parts[3:]],
    )
    progress = progress_of(plan, 1)
    assert {name: str(ranges) for name, ranges in progress.of_tables.items()} == {
        "a": "3 of 4 key ranges",
        "b": "0 of 1 key ranges",
    }
    assert progress.line(3_000, 3_000) == (
        "first load: 3 of 5 key ranges of 2 tables; 3,000 rows, 1,500 a second so far"
    )
    none_yet: LoadProgress = progress_of(plan, 0)
    assert none_yet.line(0, None) == "first load: 0 of 5 key ranges of 2 tables; 0 rows"
