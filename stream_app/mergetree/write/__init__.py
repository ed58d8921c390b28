"""Writes the changes of one bucket: from a sorted buffer to files of level 0 and of the changelog.

Start with `merge_tree_writer`.
"""
