"""Debezium's JSON messages. Start with `debezium_json`."""
