"""Finds the position of a change in its source's log; each connector has a line in `_ORDERS`.

A restarted connector repeats changes that it has already sent. Only the order of the source's log
shows which ones. `message_transactions` reads the messages, and gets the positions from here.

* PostgreSQL sends transactions in the order of their commits. A change has the LSN of the commit
  before its transaction, and its own. An END marker's id has the LSN of its commit.
* MySQL, MariaDB and SQL Server give a transaction an id that has its position in the log, in
  changes and in markers. A GTID counts the transactions of one server, or of one domain.

Source: Debezium documentation of each connector, "Transaction metadata" and "source".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stream_app.arrow_buffers import Bools, bools_of
from stream_app.cdc.transactions import NO_POSITION, POSITION_LENGTH, LogPositions

_DIGITS, _HEX = r"\d{1,18}", "[0-9a-fA-F]"
_SEQUENCE_CONNECTOR = "postgresql"
"""The connector whose changes have their position in ``source.sequence``, not in the id."""


@dataclass(frozen=True, slots=True)
class _LogOrder:
    """The form of a connector's position texts, and their order in its log.

    Attributes:
        form: an expression with the groups ``a``, ``b`` and ``c`` for the numbers, and perhaps
            ``log``.
        base_prefix: the text by which Arrow reads a number in its base: ``0x``, or empty.
    """

    form: str
    base_prefix: str = ""


_LSN_OF_COMMIT = _LogOrder(rf"^\d+:(?P<a>{_DIGITS})$")
_BINLOG = (
    _LogOrder(rf"^file=.*?(?P<a>\d{{1,10}}),pos=(?P<b>{_DIGITS})$"),
    _LogOrder(rf"^(?P<log>{_HEX}{{8}}-[^:]+(?::[a-z_]\w*)?):(?P<a>{_DIGITS})$"),
    _LogOrder(rf"^(?P<log>\d+)-\d+-(?P<a>{_DIGITS})$"),
)
_COMMIT_LSN = _LogOrder(rf"^(?P<a>{_HEX}{{8}}):(?P<b>{_HEX}{{8}}):(?P<c>{_HEX}{{4}})$", "0x")
_SEQUENCE = _LogOrder(rf'^\[(?:"(?P<a>{_DIGITS})"|null),"(?P<b>{_DIGITS})"\]$')

_ORDERS: dict[str, Sequence[_LogOrder]] = {
    "postgresql": (_LSN_OF_COMMIT,),
    "mysql": _BINLOG,
    "mariadb": _BINLOG,
    "sqlserver": (_COMMIT_LSN,),
}
"""Connector → the forms of its transactions' ids."""


def change_positions(connectors: pa.Array, ids: pa.Array, sequences: pa.Array) -> LogPositions:
    """Return the position of each change; unknown for a connector without an order.

    Args:
        connectors, ids, sequences: strings [n]; ``source.connector``, ``transaction.id`` and
            ``source.sequence``.
    """
    positions = np.full((len(ids), POSITION_LENGTH), NO_POSITION, np.int64)
    for connector in pc.unique(connectors.drop_null()).to_pylist():
        is_of_connector = bools_of(pc.equal(connectors, connector))
        if connector == _SEQUENCE_CONNECTOR:
            _set_positions(_SEQUENCE, sequences, is_of_connector, positions)
            continue
        for order in _ORDERS.get(connector, ()):
            _set_positions(order, ids, is_of_connector, positions)
    return positions


def commit_positions(ids: pa.Array) -> tuple[pa.Array, LogPositions]:
    """Return the log and the position of each transaction, by the id in its END marker.

    A marker does not name its connector, but the ids of different connectors have different forms.
    """
    positions = np.full((len(ids), POSITION_LENGTH), NO_POSITION, np.int64)
    logs = pa.array([""] * len(ids), pa.string())
    for order in {order: None for orders in _ORDERS.values() for order in orders}:
        has_position = _set_positions(order, ids, np.ones(len(ids), np.bool_), positions)
        if "<log>" in order.form:
            log = pc.struct_field(pc.extract_regex(ids, order.form), "log")
            logs = pc.if_else(pa.array(has_position), log, logs)
    return logs, positions


def _set_positions(
    order: _LogOrder, texts: pa.Array, mask: Bools, positions: LogPositions
) -> Bools:
    """Set the positions of the texts that match the form, and return their mask."""
    groups = pc.extract_regex(texts, order.form)
    has_position: Bools = mask & bools_of(groups.is_valid())
    if not has_position.any():
        return has_position
    groups = groups.filter(pa.array(has_position))
    positions[has_position] = 0
    for index, name in enumerate("abc"):
        if f"<{name}>" in order.form:
            text = pc.struct_field(groups, name)
            text = pc.if_else(pc.equal(text, ""), "0", text)
            if order.base_prefix:
                text = pc.binary_join_element_wise(order.base_prefix, text, "")
            positions[has_position, index] = pc.cast(text, pa.int64()).to_numpy()
    return has_position
