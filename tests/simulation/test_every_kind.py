"""A job writes each kind of keyed table correctly, or refuses it at its start.

The kinds are those that Paimon's Spark makes: merge engine × changelog producer × buckets ×
deletion vectors. A kind is tried as a new table, and as one that another engine has made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from stream_app.errors import StreamAppError, UnsupportedTableError, UsageError
from stream_app.model.schema.data_type import parse_columns
from stream_app.model.schema.table_schema import TableSchema, new_table_schema
from stream_app.table.file_store_table import FileStoreTable
from stream_app.table.follow.stream_scan import StreamScan
from stream_app.table.opening import require_writable
from tests.simulation.kinds import can_be_followed
from tests.simulation.scenario import Action, Round, Scenario, Verb
from tests.simulation.simulation import run
from tests.simulation.world import World
from tests.support.histories.every_kind import ALWAYS_REFUSED, EVERY_KIND, options_of

STEPS = (
    Action("e1", "job", Verb.EPOCH, (6, 4, 5)),
    Action("f1", "follower", Verb.FOLLOW),
    Action("w", "job", Verb.WHOLE),
    Action("r", "job", Verb.RESTART),
    Action("e2", "job", Verb.EPOCH, (5, 5)),
    Action("f2", "follower", Verb.FOLLOW),
    Action("d", "compactor", Verb.DRAIN),
    Action("read", "reader", Verb.READ),
)


def new_schema(options: dict[str, str]) -> TableSchema:
    return new_table_schema(
        columns=parse_columns("k INT, v BIGINT, p STRING, t STRING"),
        primary_keys=("k",),
        partition_keys=(),
        options=options,
        time_ms=0,
    )


def refusal_of(call: Callable[[], object]) -> StreamAppError | None:
    try:
        call()
    except (UsageError, UnsupportedTableError) as error:
        return error
    return None


@pytest.mark.parametrize("kind", EVERY_KIND, ids="/".join)
def test_a_kind_is_written_as_it_must_be_or_refused_at_start(
    kind: tuple[str, str, str, str],
) -> None:
    options, world = options_of(kind), World(1)
    of_others = replace(new_schema({"bucket": "1"}), options=options)
    table = FileStoreTable("/t", of_others, world.files, world.clock)
    errors = refusal_of(lambda: new_schema(options)), refusal_of(lambda: require_writable(table))
    engine, producer, bucket, vectors = kind
    assert ((engine, producer, vectors) in ALWAYS_REFUSED) <= (None not in errors)
    if errors == (None, None):
        follows = can_be_followed(options)
        assert (refusal_of(lambda: StreamScan(table)) is None) == follows
        steps = [step for step in STEPS if follows or step.verb is not Verb.FOLLOW]
        rounds = tuple(Round(f"r{index}", index, (step,), ()) for index, step in enumerate(steps))
        outcome = run(Scenario(7, "key", options, is_partitioned=False, rounds=rounds))
        assert outcome.failure is None
        assert outcome.snapshots >= 5
        return
    for error in errors:
        assert error is not None, f"refused in one way only: {errors}"
        assert error.fix
        reasons = [engine, producer, f"bucket = {bucket}", "deletion-vectors", "'bucket'"]
        assert any(word in error.problem for word in reasons), error.problem


def test_most_kinds_are_written() -> None:
    fixed_kinds = [kind for kind in EVERY_KIND if kind[2] == "2"]
    written = [
        kind
        for kind in fixed_kinds
        if refusal_of(lambda k=kind: new_schema(options_of(k))) is None  # type: ignore[misc]
    ]
    assert len(fixed_kinds) == 32
    assert len(written) == 23, "as many as Paimon makes"
