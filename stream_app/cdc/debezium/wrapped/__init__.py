"""Debezium's JSON within something else: behind a registry's head, or in a CloudEvent."""
