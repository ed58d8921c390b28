"""Plans and reads the rows of a version, or between two versions. Start with `split_scan`."""
