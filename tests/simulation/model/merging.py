"""A model of each merge engine, which makes one row of a key's changes, one after the other.

It is plain Python, and the simulation judges the product's columns by it. The changes of a
simulation merge to the same row whichever of them are merged first: `whole_again` says which
conditions this needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.simulation.scenario import Change

Record = dict[str, Any]
Merge = Callable[[Record | None, Change], Record | None]
ADDS = ("+I", "+U")


def deduplicate(_row: Record | None, change: Change) -> Record | None:
    """The newest row, unless that is a delete."""
    kind, new = change
    return new if kind in ADDS else None


def first_row(row: Record | None, change: Change) -> Record | None:
    """The oldest row."""
    return change[1] if row is None else row


def partial_update(row: Record | None, change: Change) -> Record | None:
    """A value that is not null replaces the one before; a delete removes the row."""
    kind, new = change
    if kind == "-D":
        return None
    if row is None:
        return new
    return {name: row[name] if value is None else value for name, value in new.items()}


def aggregation(options: Mapping[str, str]) -> Merge:
    """Each column by its function; a delete may remove the row."""
    functions = {
        name: FUNCTIONS[options.get(f"fields.{name}.aggregate-function", "last_non_null_value")]
        for name in ("v", "p", "t")
    }

    def merge(row: Record | None, change: Change) -> Record | None:
        kind, new = change
        if kind == "-D" and "aggregation.remove-record-on-delete" in options:
            return None
        if row is None:
            return new
        values = {name: merge_values(row[name], new[name], f) for name, f in functions.items()}
        return {**row, **values}

    return merge


def merge_values(old: Any, new: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Merge two values, of which a null counts as none."""
    if old is None or new is None:
        return new if old is None else old
    return function(old, new)


FUNCTIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "last_non_null_value": lambda _old, new: new,
    "first_non_null_value": lambda old, _new: old,
    "sum": lambda old, new: old + new,
    "max": max,
    "listagg": lambda old, new: f"{old},{new}" if old and new else old or new,
}


def merge_of(options: Mapping[str, str]) -> Merge:
    """The rule of a table."""
    match options.get("merge-engine"):
        case "partial-update":
            return partial_update
        case "aggregation":
            return aggregation(options)
        case "first-row":
            return first_row
    return deduplicate


def merged(merge: Merge, row: Record | None, changes: Iterable[Change]) -> Record | None:
    """Return the row that some changes of its key make of a row."""
    for change in changes:
        row = merge(row, change)
    return row


def placed(
    rows: Iterable[Record], changes: Iterable[Change], options: Mapping[str, str]
) -> list[Change]:
    """Return the changes in the partitions where they take effect; the keys lack the partition.

    Args:
        rows: of the table, in whatever partition.
    """
    places, changes_in_place = {row["k"]: row["p"] for row in rows}, list[Change]()
    engine = options.get("merge-engine")
    removes = engine is None or "partial-update.remove-record-on-delete" in options
    for kind, row in changes:
        key, old = row["k"], places.get(row["k"])
        if removes and kind not in ADDS:
            if old is not None:
                changes_in_place.append((kind, {**row, "p": places.pop(key)}))
            continue
        stays = old is None or old == row["p"]
        if engine == "first-row" and not stays:
            continue
        if engine is None and not stays:
            changes_in_place.append(("-D", {**row, "p": old}))
            stays = True
        places[key] = row["p"] if stays else old
        changes_in_place.append((kind, {**row, "p": places[key]}))
    return changes_in_place


def kinds_of(options: Mapping[str, str], *, has_key: bool) -> tuple[str, ...]:
    """Kinds of rows that a source may send to a table."""
    if not has_key:
        return ("+I",)
    if options.get("merge-engine") is None or "ignore-delete" in options:
        return ("+I", "+I", "+U", "-U", "-D")
    if "partial-update.remove-record-on-delete" in options:
        return ("+I", "+I", "+U", "-D")
    return ("+I", "+I", "+U")


def has_nulls(options: Mapping[str, str]) -> bool:
    """Return whether the table's engine treats a null unlike a value."""
    return options.get("merge-engine") in ("partial-update", "aggregation")


def whole_again(kind: str, row: Record, deleted_keys: set[int]) -> None:
    """Fill a row that comes behind a delete of its key; `deleted` has those keys.

    A flush merges a delete with the rows behind it, and forgets that there was one. With nulls in
    them, what was deleted would shine through; Paimon does the same.
    """
    if kind == "-D":
        deleted_keys.add(row["k"])
    if kind == "-D" or row["k"] in deleted_keys:
        row["t"] = row["t"] or ""
        row["v"] = row["v"] or 0
