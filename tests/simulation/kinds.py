"""The kinds of tables that seeds choose from; another kind is another line here.

Of each option one value is drawn; None leaves it out.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

Choices = Mapping[str, list[str | None]]

_ALL: Choices = {
    "manifest.merge-min-count": ["2", "3", None],
    "manifest.target-file-size": ["1 kb", None],
    "target-file-size": ["1 kb", "3 kb", None],
}
_KEY: Choices = {
    **_ALL,
    "bucket": ["1", "1", "2"],
    "num-sorted-run.compaction-trigger": ["1", "2", "3"],
    "num-sorted-run.stop-trigger": ["3", "4", None],
    "num-levels": ["2", "4", None],
    "compaction.max-size-amplification-percent": ["0", "50", None, "10000", "10000"],
    "compaction.size-ratio": ["0", None],
    "full-compaction.delta-commits": ["2", None, None, None],
    "ignore-delete": ["true", None, None, None],
}
_LOOKUP: Choices = {
    **_KEY,
    "changelog-producer": ["lookup"],
    "changelog-producer.row-deduplicate": ["true", None],
    "lookup-wait": ["false", None, None],
    "lookup-compact": ["gentle", None, None],
    "lookup-compact.max-interval": ["2", None],
}
_VECTORS: Choices = {
    **_LOOKUP,
    "changelog-producer": ["lookup", "input", None],
    "deletion-vectors.enabled": ["true"],
    "deletion-vectors.bitmap64": ["true", None],
}
_APPEND: Choices = {**_ALL, "compaction.min.file-num": ["2", "3"]}
_MERGING: Mapping[str, Mapping[str, list[str | None]]] = {
    "partial-update": {"partial-update.remove-record-on-delete": ["true", None]},
    "aggregation": {
        "fields.v.aggregate-function": ["sum", "sum", "max", None],
        "fields.t.aggregate-function": ["listagg", "first_non_null_value", None],
    },
    "first-row": {"changelog-producer": ["lookup", None]},
}
"""The merge engines beside deduplicate, with options of their own."""


@dataclass(frozen=True)
class SimulatedKind:
    """A kind of table.

    Attributes:
        weight: how often it is drawn, beside the others.
        engines: merge engines that go with it; None: deduplicate.
        crosses: the key lacks the partition.
        waits: a compactor must work beside the jobs, or no row gets a bucket.
    """

    choices: Choices
    weight: int
    has_key: bool = True
    engines: tuple[str | None, ...] = (None,)
    crosses: bool = False
    waits: bool = False

    @property
    def has_bucket_number(self) -> bool:
        """Return whether each partition has a number of buckets, which a rescale may change."""
        return self.has_key and "-" not in str(self.choices["bucket"][0])


_FOLDING = (None, "partial-update", "aggregation")
KINDS: Mapping[str, SimulatedKind] = {
    "key": SimulatedKind({**_KEY, "changelog-producer": ["input", None]}, 4),
    "merging": SimulatedKind(
        {**_KEY, "changelog-producer": ["input", None]}, 3,
        engines=("partial-update", "aggregation", "first-row", "first-row"),
    ),
    "lookup": SimulatedKind(_LOOKUP, 4, engines=(*_FOLDING, "first-row")),
    "full compaction": SimulatedKind(
        {
            **_KEY, "changelog-producer": ["full-compaction"],
            "changelog-producer.row-deduplicate": ["true", None],
            "full-compaction.delta-commits": ["1", "2", "3", None],
        },
        3, engines=_FOLDING,
    ),
    "deletion vectors": SimulatedKind(_VECTORS, 4, engines=_FOLDING),
    "dynamic buckets": SimulatedKind(
        {
            **_LOOKUP, "bucket": ["-1"], "changelog-producer": ["lookup", "input", None],
            "dynamic-bucket.target-row-num": ["1", "2", None],
            "dynamic-bucket.initial-buckets": ["2", None],
            "deletion-vectors.enabled": ["true", None, None],
        },
        2, engines=(*_FOLDING, "first-row"),
    ),
    # No bucket is ever full: a key that comes back after its delete comes into the bucket where it
    # was. In another one it could be lifted before its delete, which `state` does not know.
    "cross partition": SimulatedKind(
        {
            **_LOOKUP, "bucket": ["-1"], "changelog-producer": ["lookup", "input", None],
            "dynamic-bucket.assigner-parallelism": ["1", "2"],
            "deletion-vectors.enabled": ["true", None],
        },
        2, engines=(None, *_FOLDING, "first-row"), crosses=True,
    ),
    "postponed buckets": SimulatedKind(
        {
            **_LOOKUP, "bucket": ["-2"], "changelog-producer": ["lookup", "input", None],
            "postpone.default-bucket-num": ["1", "2", None],
            "deletion-vectors.enabled": ["true", None, None],
        },
        3, engines=(*_FOLDING, "first-row"), waits=True,
    ),
    "append": SimulatedKind({**_APPEND, "bucket": ["-1"]}, 2, has_key=False),
    "bucketed append": SimulatedKind(
        {**_APPEND, "bucket": ["1", "2"], "bucket-key": ["k"]}, 2, has_key=False
    ),
}  # fmt: skip


def drawn_kind(rng: random.Random) -> str:
    """The kind of a table."""
    return rng.choices(list(KINDS), [kind.weight for kind in KINDS.values()])[0]


def drawn_options(rng: random.Random, name: str) -> dict[str, str]:
    """The options of a table."""
    kind = KINDS[name]
    engine, choices = rng.choice(kind.engines), dict(kind.choices)
    options = {}
    if engine is not None:
        options["merge-engine"] = engine
        choices |= _MERGING[engine]
    for key, values in choices.items():
        value = rng.choice(values)
        if value is not None:
            options[key] = value
    if engine == "first-row":
        options.pop("deletion-vectors.enabled", None)
    moves = kind.crosses and engine is None  # then the older row must go
    if moves or "partial-update.remove-record-on-delete" in options:
        options.pop("ignore-delete", None)
    return options


def can_be_followed(options: Mapping[str, str]) -> bool:
    """Return whether readers can tell how a file changes the rows."""
    return "merge-engine" not in options or options.get("changelog-producer", "none") != "none"
