"""Data and changelog files of one bucket. Start with `key_value_file_writer`."""
