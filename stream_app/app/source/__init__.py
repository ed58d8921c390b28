"""Kafka outside of the hot path: asks for topics, ends and some messages, and sends changes."""
