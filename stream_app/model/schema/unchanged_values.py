"""Marks values that a change omits because they are unchanged.

Rows with omitted values have additional columns after the table's columns. The decoder makes them,
the shuffle transports them, and the write buffer replaces them by the row's older values.
"""

from __future__ import annotations

UNCHANGED = "\0unchanged"
"""STRING: names of the columns whose value was not sent, joined by `NAME_SEPARATOR`; null: all
were."""
MESSAGE_COLUMN = "\0message"
"""The record as it was read; null where `UNCHANGED` is."""
NAME_SEPARATOR = "\0"
