"""Bytes of a registry's schemas, in columns and one by one. Start with `avro.avro_cursor`."""
