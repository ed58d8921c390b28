"""Random transactions of a database, and the messages that a connector sends of them.

The connector is Debezium's: it sends a log in its order, and goes back in the log when it starts
again. Ids and positions have the forms of five connectors. A model of the database says what its
tables are after each transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

Row = tuple[str, int]
"""A table and a key."""
Rows = dict[Row, int]
KafkaPlace = tuple[str, int]
NAME, MARKERS = "s", "s.transaction"
KEYS = 5
_UUID = "24bc7850-2c16-11e6-a073-0242ac110002"


@dataclass(frozen=True)
class LogForm:
    """The way in which a connector names the positions in its log.

    Attributes:
        id_of: the id of a transaction, of its number and the LSN of the message.
    """

    connector: str
    id_of: Callable[[int, int], str]


FORMS = (
    LogForm("postgresql", lambda number, lsn: f"{number}:{lsn}"),
    LogForm("mysql", lambda number, _: f"file=bin.{number // 9:06d},pos={number % 9 * 500 + 4}"),
    LogForm("mysql", lambda number, _: f"{_UUID}:{number}"),
    LogForm("mariadb", lambda number, _: f"0-1-{number}"),
    LogForm("sqlserver", lambda number, _: f"{number // 8:08x}:{number % 8 * 99:08x}:0003"),
)


@dataclass(frozen=True)
class Sent:
    """A message of a table's row, or of a transaction's border."""

    table: str | None
    key: int
    value: bytes
    resumed_value: bytes = b""
    """The value when the connector has started again amid the transaction; empty: the same."""

    @property
    def topic(self) -> str:
        """The topic of the message."""
        return MARKERS if self.table is None else f"{NAME}.{self.table}"


@dataclass
class TransactionHistory:
    """A database of some tables, its transactions, and what a connector sends.

    Attributes:
        late: a table that comes amid the history; None: all are there.
        first_reads: whether the connector reads the tables first.
        states: transaction → the rows after it.
        numbers: the id in an END marker → its transaction.
    """

    random: Random
    form: LogForm = field(init=False)
    tables: list[str] = field(init=False)
    late: str | None = field(init=False, default=None)
    first_reads: bool = field(init=False)
    states: list[Rows] = field(init=False)
    numbers: dict[str, int] = field(init=False, default_factory=dict)
    log: list[list[Sent]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        random = self.random
        self.form, self.first_reads = random.choice(FORMS), random.random() < 0.5
        self.tables = ["shop.a", "shop.b", "shop.c"][: random.randint(2, 3)]
        if len(self.tables) > 2 and random.random() < 0.5:
            self.late = self.tables[-1]
        early = [table for table in self.tables if table != self.late]
        rows = {(table, key): 0 for table in early for key in range(KEYS)}
        self.states = [rows if self.first_reads else {}]
        count = random.randint(5, 25)
        for number in range(1, count + 1):
            is_early = number <= count // 2
            self._transact(number, early if is_early else self.tables)

    def reads(self) -> list[Sent]:
        """Return the messages of the connector's first read."""
        return [self._change(table, key, 0, "r", {}) for table, key in self.states[0]]

    def sent(self) -> Iterator[Sent]:
        """Yield the messages of the transactions, with repeats where the connector starts again."""
        random = self.random
        log = [(sent, index == 0) for sents in self.log for index, sent in enumerate(sents)]
        starts = [index for index, (_, is_first) in enumerate(log) if is_first]
        rate, index, resumed_index = random.choice((0.0, 0.005, 0.02, 0.04)), 0, 0
        while index < len(log):
            if index and random.random() < rate:
                back = index - random.randint(0, random.choice((3, 15, 60)))
                # Connect keeps where a connector began, so this is not before its last start.
                index = max(0, back, resumed_index if resumed_index < len(self.log[0]) else 0)
                if random.random() < 0.3:  # the marker may come again before the rest
                    yield log[max(start for start in starts if start <= index)][0]
                resumed_index = index
            sent = log[index][0]
            is_resumed = sent.resumed_value and not any(
                resumed_index <= start <= index for start in starts
            )
            yield replace(sent, value=sent.resumed_value) if is_resumed else sent
            index += 1

    def commit(self, number: int) -> int:
        """Return the position of a transaction's commit in PostgreSQL's log."""
        return 1000 + number * 100

    def _transact(self, number: int, tables: list[str]) -> None:
        random, rows = self.random, dict(self.states[-1])
        # Changes of transactions that are open at once lie among each other in the log.
        lsn = random.randint(900, self.commit(number) - 60)
        sent, counts = [self._marker("BEGIN", number, lsn)], dict.fromkeys(tables, 0)
        is_large = random.random() < 0.1
        for order in range(1, 1 + random.randint(*((20, 40) if is_large else (0, 4)))):
            table, key = random.choice(tables), random.randrange(KEYS)
            lsn += random.choice((0, 1, 1))  # rows of one COPY share a position
            value = rows[table, key] = number * 100 + order
            counts[table] += 1
            block = {"id": self.form.id_of(number, lsn), "total_order": order}
            commit = "null" if number == 1 else f'"{self.commit(number - 1)}"'
            change = self._change(
                table, key, value, "u", {"sequence": f'[{commit},"{lsn}"]'}, block
            )
            if number == 1:  # a connector that has seen no commit takes the place of what it sent
                place = {"sequence": f'["{lsn}","{lsn}"]'}
                again = self._change(table, key, value, "u", place, block)
                change = replace(change, resumed_value=again.value)
            sent.append(change)
        collections = [
            {"data_collection": table, "event_count": count}
            for table, count in counts.items()
            if count
        ]
        end = self._marker("END", number, self.commit(number), data_collections=collections)
        self.numbers[self.form.id_of(number, self.commit(number))] = number
        self.log.append([*sent, end])
        self.states.append(rows)

    def _marker(self, status: str, number: int, lsn: int, **counts: Any) -> Sent:
        marker = {"status": status, "id": self.form.id_of(number, lsn), "ts_ms": number, **counts}
        return Sent(None, 0, json.dumps(marker).encode())

    def _change(
        self,
        table: str,
        key: int,
        value: int,
        op: str,
        place: dict[str, str],
        block: dict[str, Any] | None = None,
    ) -> Sent:
        schema, name = table.split(".")
        source = {"connector": self.form.connector, "name": NAME, "schema": schema, "table": name}
        message = {
            "op": op,
            "source": {**source, **(place if self.form.connector == "postgresql" else {})},
            "after": {"k": key, "v": value},
            "transaction": block,
        }
        return Sent(table, key, json.dumps(message).encode())
