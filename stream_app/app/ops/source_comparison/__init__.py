"""Compares tables with their source, by reading topics again or by checksums.

Start with `comparison`.
"""
