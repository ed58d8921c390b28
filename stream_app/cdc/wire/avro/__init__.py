"""Avro: schemas, and the values of many messages in columns. Start with `value_cursor`."""
