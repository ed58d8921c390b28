"""Runs the tasks of one epoch in Spark jobs. Start with `epoch_runner`."""
