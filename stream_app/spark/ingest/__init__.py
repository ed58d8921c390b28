"""The driver's part of an epoch: it plans, commits and remembers. Start with `epoch_committer`."""
