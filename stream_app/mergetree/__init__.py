"""Writes and merges one bucket's LSM tree, without paths or Spark; see `merge_tree_writer`."""
