"""The only package that imports PySpark. Start with `epoch_committer`."""
