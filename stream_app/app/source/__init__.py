"""Asks a source outside of the hot path: topics, ends, messages, a database. Sends to a topic."""
