"""Asks the brokers for facts about a job's source: topics, their ends, some messages."""
