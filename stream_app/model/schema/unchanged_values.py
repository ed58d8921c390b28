"""Marks values that a change omits because they stay as they are.

Rows with omitted values have additional columns behind those of the table. The decoder makes them,
the shuffle carries them, and the write buffer puts the row's older values in their place.
"""

from __future__ import annotations

UNCHANGED = "_UNCHANGED"
"""STRING: names of the columns whose value was not sent, joined by `SEPARATOR`; null: all were."""
MESSAGE = "_MESSAGE"
"""The record as it was read; null where `UNCHANGED` is."""
SEPARATOR = "\0"
