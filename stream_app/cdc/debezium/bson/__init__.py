"""Debezium's messages of MongoDB: documents as extended JSON. Start with `debezium_bson`."""
