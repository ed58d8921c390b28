"""Writes and merges a bucket's LSM tree, without paths or Spark; see `write.merge_tree_writer`."""
