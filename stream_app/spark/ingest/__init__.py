"""Kafka to table: one epoch. Start with `epoch_committer`."""
