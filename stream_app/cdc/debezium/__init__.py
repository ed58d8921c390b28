"""Debezium's messages in JSON, Avro and BSON. Start with `debezium_json`."""
