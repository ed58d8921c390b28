"""Pure decisions about a whole table. Start with `conflict_detection`."""
