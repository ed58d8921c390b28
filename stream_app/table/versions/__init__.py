"""Which files a version has, and how a version is found. Start with `file_store_scan`."""
