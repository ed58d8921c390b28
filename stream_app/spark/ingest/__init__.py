"""Kafka to table: one micro-batch. Start with `micro_batch`."""
