"""Reads and writes data and changelog files of one bucket. Start with `rolling_file_writer`."""
