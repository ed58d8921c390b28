"""Runs the tasks of one epoch in Spark jobs. Start with `share_epochs`."""
