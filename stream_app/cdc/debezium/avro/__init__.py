"""Debezium's messages as Avro of a schema registry. Start with `debezium_avro`."""
