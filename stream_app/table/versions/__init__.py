"""The files of a version, and how a version is found. Start with `file_store_scan`."""
