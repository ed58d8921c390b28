"""Plans and reads of rows, for a version or between two. Start with `split_scan`."""
