"""Avro: schemas, and the values of many messages in columns. Start with `avro_cursor`."""
