"""Queries a source outside of the hot path: topics, offsets, messages and databases.

It also sends messages to topics.
"""
