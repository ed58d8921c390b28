"""Decides where epochs end between the transactions of the source. Start with `epoch_cut`."""
