"""One bucket's LSM tree, without paths, partitions or Spark. Start with `merge_tree_writer`."""
