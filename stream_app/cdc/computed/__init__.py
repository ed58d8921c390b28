"""Columns that no message's row has: computed from others, or from the message's metadata."""
