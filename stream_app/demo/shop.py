"""Simulates a small web shop: the demo's source, with three tables of a PostgreSQL database.

Customers order, and orders change their state or are cancelled. Items move to another line, which
changes their key. In the middle the shop alters two tables. `connector` makes the messages.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from stream_app.demo.connector import Connector, Key, Message, Row, ShopTable, captured_tables

_FIRST_NAMES = ("Ada", "Alan", "Barbara", "Edsger", "Grace", "Ken", "Leslie", "Margaret", "Tony")
_CITIES = ("Berlin", "Kyōto", "Lima", "London", "Nairobi", "Oslo", "Zürich")
_STATES = ("paid", "packed", "shipped", "delivered", "returned")
_START_US = 1_767_225_600_000_000  # 2026-01-01
_CENTS_MAX = 99_999_999  # of NUMERIC(8,2)

ALTERS = (
    "ALTER TABLE customers ADD COLUMN email VARCHAR(60)",
    "ALTER TABLE orders ALTER COLUMN total TYPE NUMERIC(12,2)",
)
"""The changes that the shop makes to its tables when half of the messages are sent."""


TABLES = ("customers", "orders", "order_items")


@dataclass(slots=True)
class Shop:
    """A simulated shop, which remembers the rows that each table must have after its changes."""

    random: Random
    tables: dict[str, ShopTable] = field(default_factory=captured_tables)
    is_altered: bool = False
    _connector: Connector = field(init=False, default_factory=lambda: Connector(_START_US))
    _customer_count: int = field(init=False, default=0)
    _order_count: int = field(init=False, default=0)

    def messages(self, count: int) -> Iterator[Message]:
        """Return the next messages; the last transaction may be incomplete."""
        return itertools.islice(self._all_messages(), count)

    def alter(self) -> None:
        """Make the changes of `ALTERS`."""
        for name in ("customers", "orders"):
            self.tables[name].alter()
        self.is_altered = True

    def _all_messages(self) -> Iterator[Message]:
        while True:
            self._connector.begin(self.random.randrange(1, 4_000_000))
            yield from self._transaction()

    def _transaction(self) -> Iterator[Message]:
        draw = self.random.random()
        if self._customer_count < 20 or draw < 0.08:
            yield from self._sign_up()
        elif self._order_count < 20 or draw < 0.35:
            yield from self._place_order()
        elif draw < 0.45:
            yield from self._move_customer()
        elif draw < 0.90:
            yield from self._advance_order()
        elif draw < 0.95:
            yield from self._renumber_item()
        else:
            yield from self._cancel_order()

    def _sign_up(self) -> Iterator[Message]:
        self._customer_count += 1
        name = f"{self.random.choice(_FIRST_NAMES)} {self._customer_count:05}"
        row: Row = (self._customer_count, name, self.random.choice(_CITIES))
        if self.is_altered:
            row = (*row, _email(name))
        yield self._connector.insert(self.tables["customers"], row)

    def _move_customer(self) -> Iterator[Message]:
        """Change a customer's city, and the e-mail address once the table has a column for it."""
        table = self.tables["customers"]
        old_row = table.rows[(self.random.randint(1, self._customer_count),)]
        row = (*old_row[:2], self.random.choice(_CITIES))
        if self.is_altered:
            row = (*row, _email(str(old_row[1])))
        yield self._connector.update(table, row)

    def _place_order(self) -> Iterator[Message]:
        self._order_count += 1
        customer = self.random.randint(1, self._customer_count)
        # Wholesale pays more than the column of the first half can hold.
        cents = self.random.randrange(199, _CENTS_MAX)
        if self.is_altered and self.random.random() < 0.1:
            cents *= 100
        row = (self._order_count, customer, "new", cents, self._connector.now_us)
        yield self._connector.insert(self.tables["orders"], row)
        for line in range(1, self.random.randint(1, 3) + 1):
            sku = f"SKU-{self.random.randrange(10**6):06}"
            item = (self._order_count, line, sku, self.random.randint(1, 9))
            yield self._connector.insert(self.tables["order_items"], item)

    def _advance_order(self) -> Iterator[Message]:
        table = self.tables["orders"]
        if old_row := table.rows.get((self._random_order(),)):
            row = (*old_row[:2], self.random.choice(_STATES), old_row[3], self._connector.now_us)
            yield self._connector.update(table, row)

    def _renumber_item(self) -> Iterator[Message]:
        table = self.tables["order_items"]
        order_id = self._random_order()
        if old_row := table.rows.get((order_id, 1)):
            yield from self._connector.update_key(
                table, (order_id, 1), (order_id, 10, *old_row[2:])
            )

    def _cancel_order(self) -> Iterator[Message]:
        order_id = self._random_order()
        for line in (1, 2, 3, 10):
            yield from self._delete("order_items", (order_id, line))
        yield from self._delete("orders", (order_id,))

    def _delete(self, name: str, key: Key) -> Iterator[Message]:
        table = self.tables[name]
        if key in table.rows:
            yield from self._connector.delete(table, key)

    def _random_order(self) -> int:
        """Return the number of an order, mostly a recent one; the order may have been cancelled."""
        return self._order_count - int(self._order_count * self.random.random() ** 4)


def _email(name: str) -> str:
    return f"{name.replace(' ', '.').lower()}@example.org"
