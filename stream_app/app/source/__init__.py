"""Queries a source outside of the hot path: topics, offsets, messages, databases.

Sends to topics.
"""
