"""Decides which files of an append table are compacted together."""
