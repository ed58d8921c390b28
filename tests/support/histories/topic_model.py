"""Computes from a topic, record by record, what a table and its changelog must contain.

It shares no code with the product: it reads the topic with kafka-python and each message with the
standard library.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

Key = tuple[str, int]
Row = dict[str, Any]
_EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone


def row_of(image: dict[str, Any]) -> Row:
    """Return an image of the shop's table as a reader of the table returns it."""
    unscaled_value = int.from_bytes(base64.b64decode(image["amount"]), "big", signed=True)
    moment = _EPOCH + datetime.timedelta(microseconds=image["updated_at"])
    return {**image, "amount": Decimal(unscaled_value).scaleb(-2), "updated_at": moment}


@dataclass
class TopicModel:
    """Rows by key, and each key's changes in order."""

    rows: dict[Key, Row] = field(default_factory=dict)
    changes: dict[Key, list[tuple[str, Row]]] = field(default_factory=dict)

    def apply(self, values: Iterable[bytes | None]) -> None:
        """Apply messages of one partition in its order."""
        for value in values:
            if value is None:
                continue
            message = json.loads(value)
            before, after = message["before"], message["after"]
            image = row_of(after or before)
            key = (image["dt"], image["id"])
            changes = self.changes.setdefault(key, [])
            if message["op"] == "d":
                changes.append(("-D", image))
                self.rows.pop(key, None)
                continue
            if message["op"] == "u":
                changes.append(("-U", row_of(before)))
            changes.append(("+I" if message["op"] in "cr" else "+U", image))
            self.rows[key] = image

    @property
    def change_count(self) -> int:
        return sum(len(changes) for changes in self.changes.values())


def read_row(row: Row) -> Row:
    """Return a row of Paimon's Java library with its time as a datetime."""
    return {**row, "updated_at": datetime.datetime.fromisoformat(row["updated_at"])}


def changes_by_key(changes: Iterable[tuple[str, Row]]) -> dict[Key, list[tuple[str, Row]]]:
    """Return a changelog grouped by key, in its order."""
    grouped_changes: dict[Key, list[tuple[str, Row]]] = {}
    for kind, row in changes:
        grouped_changes.setdefault((row["dt"], row["id"]), []).append((kind, row))
    return grouped_changes
