"""Encodes and decodes the bytes of files, without any path. Start with `binary_row`."""
