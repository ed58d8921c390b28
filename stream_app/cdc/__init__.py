"""Change messages to row changes as columns. Start with `debezium_json`."""
