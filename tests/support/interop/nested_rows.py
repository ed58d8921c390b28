"""Rows with nested columns of every type."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from stream_app.model.schema.data_type import DataType, TypeRoot
from stream_app.model.schema.table_schema import TableSchema
from tests.support.histories.random_changes import value_of
from tests.support.judges.normal_rows import Row
from tests.support.tables.small_table import Change

EVERY_TYPE = (
    "b BOOLEAN, i TINYINT, j SMALLINT, l BIGINT NOT NULL, d DECIMAL(9, 2), e DECIMAL(38, 10), "
    "c CHAR(3), s STRING, y BYTES, t DATE, u TIME(3), v TIMESTAMP(3), w TIMESTAMP(6), "
    "x TIMESTAMP(6) WITH LOCAL TIME ZONE, f FLOAT, g DOUBLE"
)


@dataclass
class Rows:
    """A source of random rows of four keys, whose elements repeat."""

    schema: TableSchema
    kinds: tuple[str, ...]
    rng: random.Random

    def epoch(self, count: int) -> list[Change]:
        return [(self.rng.choice(self.kinds), self._row()) for _ in range(count)]

    def _row(self) -> Row:
        row = {column.name: self.value(column.data_type) for column in self.schema.fields}
        return {**row, "k": self.rng.randrange(4)}

    def value(self, kind: DataType) -> Any:
        rng = self.rng
        if kind.nullable and rng.random() < 0.2:
            return None
        match kind:
            case DataType(root=TypeRoot.ARRAY, element=DataType() as element):
                return [self.value(element) for _ in range(rng.randrange(4))]
            case DataType(root=TypeRoot.MAP, key=DataType() as key, element=DataType() as element):
                keys = {self.value(key.not_null()) for _ in range(rng.randrange(4))}
                return sorted(((key, self.value(element)) for key in keys), key=repr)
            case DataType(root=TypeRoot.ROW):
                return {field.name: self.value(field.data_type) for field in kind.fields}
            case DataType(root=TypeRoot.INT):
                return rng.randrange(3)
            case DataType(root=TypeRoot.VARCHAR):
                return rng.choice(["", "a", "b", "é"])
        return value_of(kind, rng)
