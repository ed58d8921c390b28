"""Simulates a small web shop, and writes the changes of its orders as Debezium does.

Benches and soaks read the messages. Customers place orders, change them a few times, new ones far
more often than old ones, and sometimes cancel them. Each change is a message of Debezium's
PostgreSQL connector without schema envelope, with REPLICA IDENTITY FULL and the connector's default
modes. Decimals are base64 of their bytes, and timestamps are microseconds.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from random import Random

COLUMNS = (
    "id BIGINT NOT NULL, customer STRING, amount DECIMAL(12,2), status STRING, "
    "updated_at TIMESTAMP(6), dt STRING NOT NULL"
)
_FIRST_NAMES = ("Ada", "Alan", "Barbara", "Edsger", "Grace", "Ken", "Leslie", "Margaret", "Tony")
_STATUSES = ("paid", "packed", "shipped", "delivered", "returned")
_START_US = 1_767_225_600_000_000  # 2026-01-01
_ORDERS_PER_DAY = 40_000
_NEW_SHARE, _CANCEL_SHARE = 0.45, 0.05


@dataclass(frozen=True, slots=True)
class Order:
    """A row of the source's table. The amount is in cents, and `updated_at` in microseconds."""

    order_id: int
    customer: str
    cents: int
    status: str
    updated_at: int
    dt: str

    def values(self) -> tuple[int, str, Decimal, str, int, str]:
        """Return the columns in the table's order, with the time in microseconds."""
        amount = Decimal(self.cents).scaleb(-2)
        return self.order_id, self.customer, amount, self.status, self.updated_at, self.dt


@dataclass(slots=True)
class Shop:
    """A simulated shop, which remembers the rows that its table must have after the changes."""

    random: Random
    orders: dict[int, Order] = field(default_factory=dict)
    _ids: list[int] = field(default_factory=list)
    _next_id: int = 1
    _now_us: int = _START_US
    _position: int = 0

    def changes(self, count: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield the next messages as (key, value)."""
        for _ in range(count):
            self._now_us += self.random.randrange(1, 4_000_000)
            draw = self.random.random()
            old = None if draw < _NEW_SHARE else self._random_order()
            if old is None:
                yield self._message("c", None, self._new_order())
            elif draw > 1 - _CANCEL_SHARE:
                del self.orders[old.order_id]
                yield self._message("d", old, None)
            else:
                yield self._message("u", old, self._change(old))

    def _random_order(self) -> Order | None:
        """Return an order, mostly one of the newest, or None if the drawn order was cancelled."""
        if not self._ids:
            return None
        distance = int(len(self._ids) * self.random.random() ** 4)
        return self.orders.get(self._ids[-1 - distance])

    def _new_order(self) -> Order:
        number = self._next_id
        self._next_id += 1
        day = datetime.date(2026, 1, 1) + datetime.timedelta(days=number // _ORDERS_PER_DAY)
        customer = f"{self.random.choice(_FIRST_NAMES)} {int(self.random.paretovariate(0.6)):05}"
        order = Order(
            number,
            customer,
            self.random.randrange(199, 99_900),
            "new",
            self._now_us,
            day.isoformat(),
        )
        self.orders[number] = order
        self._ids.append(number)
        return order

    def _change(self, old: Order) -> Order:
        order = Order(
            old.order_id,
            old.customer,
            old.cents + self.random.randrange(0, 3) * 100,
            self.random.choice(_STATUSES),
            self._now_us,
            old.dt,
        )
        self.orders[old.order_id] = order
        return order

    def _message(self, op: str, before: Order | None, after: Order | None) -> tuple[bytes, bytes]:
        self._position += 1
        newest_image = after or before
        assert newest_image is not None
        now_ms = self._now_us // 1000
        value = (
            f'{{"before":{_json(before)},"after":{_json(after)},"source":{{"version":"3.7.0.Final",'
            f'"connector":"postgresql","name":"shop","ts_ms":{now_ms},"snapshot":"false",'
            f'"db":"shop","schema":"public","table":"orders","txId":{self._position},'
            f'"lsn":{24_000_000 + 56 * self._position}}},"op":"{op}","ts_ms":{now_ms + 3}}}'
        )
        key = f'{{"id":{newest_image.order_id},"dt":"{newest_image.dt}"}}'
        return key.encode(), value.encode()


def _json(order: Order | None) -> str:
    if order is None:
        return "null"
    length = order.cents.bit_length() // 8 + 1
    amount = base64.b64encode(order.cents.to_bytes(length, "big", signed=True)).decode()
    return (
        f'{{"id":{order.order_id},"customer":"{order.customer}","amount":"{amount}",'
        f'"status":"{order.status}","updated_at":{order.updated_at},"dt":"{order.dt}"}}'
    )
