"""Compares tables with their source: topics read again, or checksums. Start with `comparison`."""
