"""The tables in a terminal: what is shown, and the keys."""
