"""Plain rows in JSON, Avro, Protobuf and CloudEvents. Start with `plain_json`."""
