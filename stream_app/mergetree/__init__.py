"""One bucket's LSM tree; knows no path, partition or Spark. Start with `merge_tree_writer`."""
