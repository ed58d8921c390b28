"""Runs an application's seeded statements on its database, one after the other.

Only the database knows the rows. The workload knows the numbers that it has given to rows, so a
statement may meet a row that is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.testbed.source_database import SourceDatabase
from tests.testbed.source_tables import SourceColumn, SourceTable, source_tables
from tests.testbed.value_kinds import WIDER

_ADDED = ("int32", "varchar(40)", "decimal(10, 2)", "timestamp(6)", "bool", "float", "date", "text")
_ALTER_SHARE = 0.06
_SHARES = {
    "insert": 30,
    "update": 40,
    "delete": 12,
    "move": 6,
    "many tables": 8,
    "roll back": 3,
    "big": 0.5,
}
"""How often each kind of transaction comes; each has its case in `Workload.step`."""
EMPTIED = ("sessions", "flags")
"""Tables that are emptied now and then; the topic of each must have one partition."""
_TRUNCATE_SHARE = 0.2


class Workload:
    """Tables with rows in them, and `step` for more.

    Args:
        alters: whether tables may change their columns.
        big: rows of a big transaction.
    """

    def __init__(
        self, database: SourceDatabase, random: Random, *, alters: bool = False, big: int = 400
    ) -> None:
        self.tables = source_tables()
        self.done: Counter[str] = Counter()
        self._database, self._random, self._alters, self._big = database, random, alters, big
        self._ways: dict[str, Callable[[SourceTable], bool]] = {
            "ADD": self._add,
            "ADD DEFAULT": self._add_with_default,
            "widen": self._widen,
            "RENAME": self._rename,
            "DROP": self._drop,
            "NOT NULL to null": self._drop_not_null,
            "COMMENT": self._comment,
        }
        for table in self.tables:
            database.create(table)
            self._insert(table, 20)

    def run(self, steps: int) -> None:
        """Some steps."""
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """Do one transaction of a random kind, one ALTER, or one TRUNCATE."""
        random, table = self._random, self._random.choice(self.tables)
        if self._alters and random.random() < _ALTER_SHARE:
            self.alter(table)
            return
        if table.name in EMPTIED and random.random() < _TRUNCATE_SHARE:
            self.truncate(table)
            return
        [name] = random.choices([*_SHARES], [*_SHARES.values()])
        self._transact(name, table)

    def truncate(self, table: SourceTable) -> None:
        """Delete all rows of a table at once."""
        self._execute(f"truncate table {table.name}", [])
        self.done["truncate"] += 1

    def _transact(self, name: str, table: SourceTable) -> None:
        random = self._random
        self.done[name] += 1
        keep = name != "roll back"
        with self._database.transaction(keep=keep):
            match name:
                case "insert":
                    self._insert(table, random.randrange(1, 12))
                case "update":
                    self._update(table, random.randrange(1, 12))
                case "delete":
                    self._delete(table, random.randrange(1, 6))
                case "move":
                    self._move(table)
                case "many tables" | "roll back":
                    for other in random.sample(self.tables, 4):
                        self._insert(other, 2)
                        self._update(other, 3)
                        self._delete(other, 1)
                        self._move(other)
                case "big":
                    self._insert(table, self._big)
                    self._touch_all(table)

    def finish(self) -> None:
        """Do every kind of transaction and ALTER that has not come yet; then a row for each table.

        A log tells of an ALTER with the table's next change.
        """
        for name in [name for name in _SHARES if name not in self.done]:
            self._transact(name, self._random.choice(self.tables))
        if not self.done["truncate"]:
            self.truncate(next(table for table in self.tables if table.name in EMPTIED))
        while self._alters and self._ways.keys() - self.done.keys():
            self.alter(self._random.choice(self.tables))
        for table in self.tables:
            self._insert(table, 1)

    def alter(self, table: SourceTable) -> None:
        """Change the columns of a table, in the way that has come least so far."""
        names = sorted(self._ways, key=lambda name: (self.done[name], self._random.random()))
        done = next((name for name in names if self._ways[name](table)), None)
        if done is not None:
            self.done[done] += 1

    def _execute(self, sql: str, parameters: list[Any]) -> None:
        self._database.execute(sql, parameters)

    def _value(self, column: SourceColumn) -> Any:
        if not column.is_required and self._random.random() < 0.1:
            return None
        return self._database.parameter(column, column.kind.make(self._random))

    def _insert(self, table: SourceTable, count: int) -> None:
        names = [*table.key_names, *(column.name for column in table.columns)]
        row = f"({', '.join(['%s'] * len(names))})"
        for start in range(0, count, 50):
            row_count = min(50, count - start)
            parameters: list[Any] = []
            for number in range(table.used_count, table.used_count + row_count):
                parameters += [*table.key_of(number), *map(self._value, table.columns)]
            table.used_count += row_count
            rows = ", ".join([row] * row_count)
            self._execute(
                f"insert into {table.name} ({', '.join(names)}) values {rows}", parameters
            )

    def _update(self, table: SourceTable, count: int) -> None:
        """Send one statement for each row, which changes the named columns alone."""
        for _ in range(count):
            count_of_columns = self._random.randint(1, min(3, len(table.columns)))
            changed_columns = self._random.sample(table.columns, count_of_columns)
            sets = ", ".join(f"{column.name} = %s" for column in changed_columns)
            where, key = self._some_row(table)
            values = [self._value(column) for column in changed_columns]
            self._execute(f"update {table.name} set {sets} where {where}", [*values, *key])

    def _delete(self, table: SourceTable, count: int) -> None:
        for _ in range(count):
            where, key = self._some_row(table)
            self._execute(f"delete from {table.name} where {where}", [*key])

    def _move(self, table: SourceTable) -> None:
        """Give a row another key."""
        where, key = self._some_row(table)
        sets = ", ".join(f"{name} = %s" for name in table.key_names)
        new = table.key_of(table.used_count)
        table.used_count += 1
        self._execute(f"update {table.name} set {sets} where {where}", [*new, *key])

    def _some_row(self, table: SourceTable) -> tuple[str, tuple[Any, ...]]:
        # The newest are changed most, as in life, and still exist more often.
        number = table.used_count - 1 - int(self._random.random() ** 2 * table.used_count)
        where = " and ".join(f"{name} = %s" for name in table.key_names)
        return where, table.key_of(number)

    def _touch_all(self, table: SourceTable) -> None:
        """An UPDATE of each row, as is run after an ALTER that gives old rows a value."""
        self._execute(f"update {table.name} set touched = mod(coalesce(touched, 0), 1000) + 1", [])

    def _add(self, table: SourceTable) -> bool:
        column = SourceColumn(table.new_name(), self._random.choice(_ADDED))
        kind = self._database.type_of(column)
        self._execute(f"alter table {table.name} add column {column.name} {kind}", [])
        table.columns.append(column)
        return True

    def _add_with_default(self, table: SourceTable) -> bool:
        column = SourceColumn(table.new_name(), self._random.choice(("int32", "varchar(40)")))
        sql = f"{self._database.type_of(column)} default {column.kind.default}"
        self._execute(f"alter table {table.name} add column {column.name} {sql}", [])
        table.columns.append(column)
        self._touch_all(table)  # the log says nothing of the old rows' new values
        return True

    def _widen(self, table: SourceTable) -> bool:
        places = [n for n, column in enumerate(table.columns) if column.kind_name in WIDER]
        if not places:
            return False
        place = self._random.choice(places)
        old = table.columns[place]
        table.columns[place] = replace(old, kind_name=WIDER[old.kind_name])
        self._database.widen(table, table.columns[place])
        return True

    def _rename(self, table: SourceTable) -> bool:
        place = self._random.randrange(len(table.columns))
        old = table.columns[place]
        if old.name == "touched":
            return False
        new = replace(old, name=table.new_name())
        self._execute(f"alter table {table.name} rename column {old.name} to {new.name}", [])
        table.columns[place] = new
        self._touch_all(table)  # to readers of the log the column is a new one
        return True

    def _drop(self, table: SourceTable) -> bool:
        column = self._random.choice(table.columns)
        if column.name == "touched" or len(table.columns) < 3:
            return False
        self._execute(f"alter table {table.name} drop column {column.name}", [])
        table.columns.remove(column)
        return True

    def _drop_not_null(self, table: SourceTable) -> bool:
        required_indices = [
            place for place, column in enumerate(table.columns) if column.is_required
        ]
        if not required_indices:
            return False
        place = self._random.choice(required_indices)
        self._database.drop_not_null(table, table.columns[place])
        table.columns[place] = replace(table.columns[place], is_required=False)
        return True

    def _comment(self, table: SourceTable) -> bool:
        place = self._random.randrange(len(table.columns))
        text = f"Größe № {self._random.randrange(1000)}"
        table.columns[place] = self._database.comment(table, table.columns[place], text)
        return True
