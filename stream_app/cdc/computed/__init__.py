"""Columns that stand in no message's row: computed from others, or told by the message itself."""
