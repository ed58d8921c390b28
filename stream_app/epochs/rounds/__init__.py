"""The driver's part of an epoch: rounds, commits, and held tables. Start with `epoch_committer`."""
