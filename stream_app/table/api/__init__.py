"""What Python users hold: a table with its verbs."""
