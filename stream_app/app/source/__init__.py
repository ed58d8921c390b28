"""Looks at the source outside of the hot path: topics, their ends, first messages, a database."""
