"""Random but believable changes: inserts, updates and deletes of a few keys of any type."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from stream_app.model.schema.data_type import DataField, DataType, TypeRoot
from stream_app.model.schema.table_schema import TableSchema
from tests.support.tables.small_table import Change

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp without zone
_TEXTS = ("", "a", "ab", "é", "\uffff", "\U0001f600x", "Ünïcödé " * 5, "a\0b", "z" * 130, "/=%'")
_INTEGER_BITS = {
    TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64
}  # fmt: skip


def value_of(data_type: DataType, rng: random.Random) -> Any:  # noqa: C901, PLR0911 - a table
    """Return a value of a type, often one at its edge."""
    root = data_type.root
    if root in _INTEGER_BITS:
        end = 1 << (_INTEGER_BITS[root] - 1)
        return rng.choice([-end, -1, 0, 1, end - 1, rng.randrange(-end, end)])
    match root:
        case TypeRoot.BOOLEAN:
            return rng.random() < 0.5
        case TypeRoot.DECIMAL:
            end = 10**data_type.precision
            unscaled_value = rng.choice([0, -1, end - 1, 1 - end, rng.randrange(end)])
            sign, digits = (
                int(unscaled_value < 0),
                tuple(int(digit) for digit in str(abs(unscaled_value))),
            )
            return Decimal((sign, digits, -data_type.scale))
        case TypeRoot.FLOAT:
            return rng.choice([0.0, -1.5, float("nan"), float("inf"), 2.0**-100])
        case TypeRoot.DOUBLE:
            return rng.choice([0.1, -0.0, float("nan"), float("-inf"), rng.random()])
        case TypeRoot.DATE:
            return dt.date(1970, 1, 1) + dt.timedelta(rng.randrange(-700_000, 2_000_000))
        case TypeRoot.TIME:
            return dt.time(rng.randrange(24), 59, 59, rng.randrange(1000) * 1000)
        case TypeRoot.CHAR | TypeRoot.VARCHAR:
            return rng.choice(_TEXTS)[: data_type.length]
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return rng.choice(_TEXTS).encode()[: data_type.length]
    return _timestamp(data_type, rng)


def _timestamp(data_type: DataType, rng: random.Random) -> dt.datetime:
    # Nanoseconds reach from 1677 to 2262 in Arrow; Python knows microseconds.
    seconds = rng.choice([-(8 * 10**9), -1, 0, 8 * 10**9, rng.randrange(2 * 10**9)])
    step = 10 ** max(0, 6 - data_type.precision)
    micros = rng.randrange(10**6) // step * step
    value = _EPOCH + dt.timedelta(seconds=seconds, microseconds=micros)
    has_zone = data_type.root is TypeRoot.TIMESTAMP_LTZ
    return value.replace(tzinfo=dt.UTC) if has_zone else value


@dataclass
class RandomChanges:
    """Makes changes of a table whose columns may have any type.

    An update is -U and +U as Debezium tells it. With sequence columns (one, BIGINT) rows come out
    of order, but none is older than its key's last delete: a compaction may have forgotten that.

    Attributes:
        key_count: how many keys there are in all.
        partitions: how many values each partition column takes.
    """

    schema: TableSchema
    rng: random.Random
    key_count: int = 30
    partitions: int = 2
    deletes: bool = True
    _keys: list[dict[str, Any]] = field(init=False)
    _live: dict[int, dict[str, Any]] = field(default_factory=dict)
    _now: int = 0
    _floor: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        schema = self.schema
        columns = {column.name: column for column in schema.fields}
        pools = {name: self._pool(columns[name], self.partitions) for name in schema.partition_keys}
        distinct: dict[str, dict[str, Any]] = {}
        for _ in range(self.key_count):
            key = {
                name: self.rng.choice(pools[name])
                if name in pools
                else value_of(columns[name].data_type, self.rng)
                for name in schema.primary_keys
            }
            distinct[repr(key)] = key
        self._keys = list(distinct.values())

    def _pool(self, column: DataField, count: int) -> Sequence[Any]:
        values = [value_of(column.data_type, self.rng) for _ in range(count)]
        # An empty text and null share a folder's name, and so do not belong here.
        return [value if value != "" else "none" for value in values]

    def epoch(self, count: int) -> list[Change]:
        """About `count` changes."""
        changes: list[Change] = []
        while len(changes) < count:
            changes += self._change()
        return changes

    def _change(self) -> list[Change]:
        number = self.rng.randrange(len(self._keys))
        old = self._live.get(number)
        if old is not None and self.deletes and self.rng.random() < 0.25:
            del self._live[number]
            row = {**old, **self._sequence(number, newest=True)}
            return [("-D", row)]
        row = {**self._keys[number], **self._values(), **self._sequence(number)}
        self._live[number] = row
        if old is None:
            return [("+I", row)]
        if self.schema.sequence_fields:
            return [("+U", row)]
        return [("-U", old), ("+U", row)]

    def _values(self) -> dict[str, Any]:
        return {
            column.name: None
            if column.data_type.nullable and self.rng.random() < 0.15
            else value_of(column.data_type, self.rng)
            for column in self.schema.fields
            if column.name not in self.schema.primary_keys
        }

    def _sequence(self, number: int, *, newest: bool = False) -> dict[str, Any]:
        if not self.schema.sequence_fields:
            return {}
        (name,) = self.schema.sequence_fields
        self._now += 1
        if newest:
            self._floor[number] = self._now
            return {name: self._now}
        return {name: self.rng.randrange(self._floor.get(number, 0), self._now) + 1}
